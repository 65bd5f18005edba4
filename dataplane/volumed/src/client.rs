//! Asking a daemon, over its control socket.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Map, Value};
use thiserror::Error;

use crate::protocol::{PROTOCOL_VERSION, render_request};
use crate::socket_path::SocketPath;

/// A question got no result.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody listens.
    #[error("no daemon serves {path}: {source}. `volumed serve` starts one.")]
    NoDaemon {
        /// The socket.
        path: PathBuf,
        /// Why the connection failed.
        #[source]
        source: io::Error,
    },
    /// The daemon said no.
    #[error("{message}")]
    Refused {
        /// Its code.
        code: String,
        /// Its words.
        message: String,
    },
    /// The conversation broke, or the daemon is too slow.
    #[error("the daemon at {path} did not answer: {source}. Its log says more.")]
    Lost {
        /// The socket.
        path: PathBuf,
        /// What broke.
        #[source]
        source: io::Error,
    },
    /// An answer of another version, or none at all.
    #[error("the daemon at {path} gave an answer that is not understood. Use its own version.")]
    Odd {
        /// The socket.
        path: PathBuf,
    },
}

/// Ask the daemon at `path` and give its result; waits at most `patience` for the answer.
///
/// # Errors
/// [`AskError`].
pub fn ask(
    path: &Path,
    command: &str,
    arguments: Map<String, Value>,
    patience: Duration,
) -> Result<Value, AskError> {
    let mut stream = SocketPath::of(path)
        .and_then(UnixStream::connect)
        .map_err(|source| AskError::NoDaemon { path: path.to_owned(), source })?;
    let lost = |source| AskError::Lost { path: path.to_owned(), source };
    stream.set_read_timeout(Some(patience)).map_err(lost)?;
    stream.set_write_timeout(Some(patience)).map_err(lost)?;
    stream.write_all(render_request(command, arguments).as_bytes()).map_err(lost)?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).map_err(lost)?;
    if line.is_empty() {
        return Err(lost(io::ErrorKind::UnexpectedEof.into()));
    }
    read_answer(&line).ok_or_else(|| AskError::Odd { path: path.to_owned() })?
}

/// The result or refusal in an answer; None when it is none of this version.
fn read_answer(line: &str) -> Option<Result<Value, AskError>> {
    let mut answer: Value = serde_json::from_str(line).ok()?;
    if answer.get("version")?.as_u64()? != PROTOCOL_VERSION {
        return None;
    }
    if answer.get("ok")?.as_bool()? {
        return Some(Ok(answer.get_mut("result")?.take()));
    }
    let said = |field| answer.get("error")?.get(field)?.as_str().map(str::to_owned);
    Some(Err(AskError::Refused { code: said("code")?, message: said("message")? }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_are_read() {
        let good = read_answer(r#"{"version":1,"ok":true,"result":{"a":1}}"#).unwrap();
        assert_eq!(good.unwrap(), json!({"a": 1}));
        let bad = r#"{"version":1,"ok":false,"error":{"code":"busy","message":"Wait."}}"#;
        match read_answer(bad).unwrap() {
            Err(AskError::Refused { code, message }) => {
                assert_eq!((code.as_str(), message.as_str()), ("busy", "Wait."));
            }
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_answer_of_another_kind_is_not_guessed_at() {
        for line in [
            "",
            "ok",
            "{}",
            r#"{"version":2,"ok":true,"result":{}}"#,
            r#"{"version":1,"ok":true}"#,
            r#"{"version":1,"ok":"yes","result":{}}"#,
            r#"{"version":1,"ok":false,"error":"busy"}"#,
        ] {
            assert!(read_answer(line).is_none(), "{line}");
        }
    }
}
