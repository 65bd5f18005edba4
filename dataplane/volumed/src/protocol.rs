//! What is said on the control socket: one JSON object a line, each way.
//!
//! A request is `{"version":1,"command":"resize","size_bytes":1073741824}`; an answer is
//! `{"version":1,"ok":true,"result":{...}}` or
//! `{"version":1,"ok":false,"error":{"code":"lower-kebab","message":"..."}}`.

use std::time::Duration;

use serde_json::{Map, Value, json};
use thiserror::Error;

use crate::image_name::{ImageName, parse_image};

/// The version of the protocol; a change that an old client would misread raises it.
pub const PROTOCOL_VERSION: u64 = 1;
/// The longest wait that a request may ask for, in seconds.
pub const MAX_TIMEOUT_S: f64 = 3600.0;

const DEFAULT_DRAW_DOWN_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_CHECK_TIMEOUT: Duration = Duration::from_secs(10);
const DEFAULT_SNAPSHOT_TIMEOUT: Duration = Duration::from_secs(60);
const MAX_SNAPSHOT_NAME_BYTES: usize = 255;
const DEFAULT_FLUSH_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_QUIESCE_TIMEOUT: Duration = Duration::from_secs(60);
/// Long enough for a loop device to let go, short of the grace that container runtimes give.
pub const DEFAULT_STOP_TIMEOUT: Duration = Duration::from_secs(8);
const DEFAULT_RESIZE_TIMEOUT: Duration = Duration::from_secs(30);
const DEFAULT_EXCHANGE_TIMEOUT: Duration = Duration::from_secs(60);
/// Longer than what is done to a closed image takes.
const DEFAULT_EXCHANGE_LIMIT: Duration = Duration::from_secs(120);

/// What the daemon can be asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// How it is now.
    Status,
    /// What it has done so far.
    Statistics,
    /// Both, as Prometheus text.
    Metrics,
    /// Read the size again.
    Resize {
        /// What it is expected to be.
        size_bytes: Option<u64>,
        /// How long to wait for the cluster.
        timeout: Duration,
    },
    /// Make durable what was written.
    Flush {
        /// How long to wait for the cluster.
        timeout: Duration,
    },
    /// Bring what a journal holds into the image while requests go on, only slower.
    DrawDown {
        /// When to let the rest be.
        timeout: Duration,
    },
    /// Hold new requests until `resume`.
    Pause,
    /// End a pause.
    Resume,
    /// Let an emulated disk take its time, or not.
    Pace {
        /// Whether it does.
        paced: bool,
    },
    /// Hold new requests, wait for those in flight, flush.
    Quiesce {
        /// When it ends by itself; also how long to wait for the cluster.
        timeout: Duration,
    },
    /// End a quiesce.
    Unquiesce,
    /// Ask the cluster whose the image's lock is: whether it still hears this client.
    Check {
        /// How long to wait for the cluster.
        timeout: Duration,
    },
    /// Take a snapshot that holds everything flushed.
    Snapshot {
        /// Its name.
        name: String,
        /// How long to wait for it; what is late is not taken, or removed again.
        timeout: Duration,
    },
    /// Hold new requests, flush, close the image.
    CloseImage {
        /// How long to wait for the cluster.
        timeout: Duration,
        /// When the image is opened again without being asked for.
        limit: Duration,
    },
    /// Open an image, and end what `close-image` began.
    OpenImage {
        /// Which; None for the last one.
        image: Option<ImageName>,
        /// How long to wait for the cluster.
        timeout: Duration,
    },
    /// Unmount, flush, let go of the image, end.
    Stop {
        /// How long to wait for users to let go, and then for the cluster.
        timeout: Duration,
        /// What the journal holds stays there, and is not brought into the image before.
        leaves_journal: bool,
    },
}

/// A request was not carried out.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{message}")]
pub struct Refused {
    /// For programs: lower-kebab, never changed.
    pub code: &'static str,
    /// For people: one or two sentences.
    pub message: String,
}

impl Refused {
    /// A refusal.
    #[must_use]
    pub fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

/// Read one request, without its end of line.
///
/// # Errors
/// [`Refused`] with `malformed-request`, `unsupported-version`, `unknown-command`,
/// `unknown-argument` or `invalid-argument`.
pub fn parse_request(line: &[u8]) -> Result<Command, Refused> {
    let malformed = |why: String| Refused::new("malformed-request", why);
    let value: Value = serde_json::from_slice(line)
        .map_err(|error| malformed(format!("The request is not JSON: {error}.")))?;
    let Value::Object(mut fields) = value else {
        return Err(malformed("The request is not a JSON object.".to_owned()));
    };
    match fields.remove("version") {
        Some(version) if version.as_u64() == Some(PROTOCOL_VERSION) => {}
        Some(version) => {
            return Err(Refused::new(
                "unsupported-version",
                format!("Version {version} is not spoken here; use {PROTOCOL_VERSION}."),
            ));
        }
        None => return Err(malformed("The request has no version.".to_owned())),
    }
    let Some(Value::String(name)) = fields.remove("command") else {
        return Err(malformed("The request has no command, or it is no string.".to_owned()));
    };
    let command = parse_command(&name, &mut fields)?;
    match fields.keys().next() {
        None => Ok(command),
        Some(argument) => Err(Refused::new(
            "unknown-argument",
            format!("The command {name} takes no argument {argument:?}."),
        )),
    }
}

/// The command called `name`, with its arguments taken out of `fields`.
fn parse_command(name: &str, fields: &mut Map<String, Value>) -> Result<Command, Refused> {
    Ok(match name {
        "status" => Command::Status,
        "statistics" => Command::Statistics,
        "metrics" => Command::Metrics,
        "resize" => Command::Resize {
            size_bytes: take_size(fields)?,
            timeout: take_timeout(fields, DEFAULT_RESIZE_TIMEOUT)?,
        },
        "flush" => Command::Flush { timeout: take_timeout(fields, DEFAULT_FLUSH_TIMEOUT)? },
        "draw-down" => {
            Command::DrawDown { timeout: take_timeout(fields, DEFAULT_DRAW_DOWN_TIMEOUT)? }
        }
        "pause" => Command::Pause,
        "resume" => Command::Resume,
        "pace" => Command::Pace { paced: take_required_flag(fields, "paced")? },
        "quiesce" => Command::Quiesce { timeout: take_timeout(fields, DEFAULT_QUIESCE_TIMEOUT)? },
        "unquiesce" => Command::Unquiesce,
        "check" => Command::Check { timeout: take_timeout(fields, DEFAULT_CHECK_TIMEOUT)? },
        "snapshot" => Command::Snapshot {
            name: take_snapshot_name(fields)?,
            timeout: take_timeout(fields, DEFAULT_SNAPSHOT_TIMEOUT)?,
        },
        "close-image" => Command::CloseImage {
            timeout: take_timeout(fields, DEFAULT_EXCHANGE_TIMEOUT)?,
            limit: take_seconds(fields, "limit_s", DEFAULT_EXCHANGE_LIMIT)?,
        },
        "open-image" => Command::OpenImage {
            image: take_image(fields)?,
            timeout: take_timeout(fields, DEFAULT_EXCHANGE_TIMEOUT)?,
        },
        "stop" => Command::Stop {
            timeout: take_timeout(fields, DEFAULT_STOP_TIMEOUT)?,
            leaves_journal: take_flag(fields, "leave_journal")?,
        },
        _ => {
            return Err(Refused::new(
                "unknown-command",
                format!("There is no command {name:?}; `volumed ctl --help` lists them."),
            ));
        }
    })
}

fn take_size(fields: &mut Map<String, Value>) -> Result<Option<u64>, Refused> {
    let Some(value) = fields.remove("size_bytes") else {
        return Ok(None);
    };
    value.as_u64().map(Some).ok_or_else(|| {
        Refused::new("invalid-argument", format!("size_bytes is {value}, not a number of bytes."))
    })
}

fn take_image(fields: &mut Map<String, Value>) -> Result<Option<ImageName>, Refused> {
    let Some(value) = fields.remove("image") else {
        return Ok(None);
    };
    let parsed = value.as_str().and_then(|text| parse_image(text).ok());
    parsed.map(Some).ok_or_else(|| {
        let forms = "POOL/IMAGE or POOL/NAMESPACE/IMAGE";
        Refused::new("invalid-argument", format!("image is {value}, not {forms}."))
    })
}

fn take_snapshot_name(fields: &mut Map<String, Value>) -> Result<String, Refused> {
    match fields.remove("name") {
        Some(Value::String(name)) if is_snapshot_name(&name) => Ok(name),
        Some(value) => Err(Refused::new(
            "invalid-argument",
            format!(
                "name is {value}, not a snapshot's name without '/', '@' and control characters."
            ),
        )),
        None => Err(Refused::new("invalid-argument", "The snapshot has no name.")),
    }
}

fn is_snapshot_name(name: &str) -> bool {
    let is_odd = |c: char| c.is_control() || c == '/' || c == '@';
    !name.is_empty() && name.len() <= MAX_SNAPSHOT_NAME_BYTES && !name.contains(is_odd)
}

fn take_flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool, Refused> {
    if fields.contains_key(name) { take_required_flag(fields, name) } else { Ok(false) }
}

fn take_required_flag(fields: &mut Map<String, Value>, name: &str) -> Result<bool, Refused> {
    let what = match fields.remove(name) {
        Some(Value::Bool(flag)) => return Ok(flag),
        Some(value) => value.to_string(),
        None => "missing".to_owned(),
    };
    Err(Refused::new("invalid-argument", format!("{name} is {what}, neither true nor false.")))
}

fn take_timeout(fields: &mut Map<String, Value>, default: Duration) -> Result<Duration, Refused> {
    take_seconds(fields, "timeout_s", default)
}

fn take_seconds(
    fields: &mut Map<String, Value>,
    name: &str,
    default: Duration,
) -> Result<Duration, Refused> {
    let Some(value) = fields.remove(name) else {
        return Ok(default);
    };
    value
        .as_f64()
        .filter(|timeout_s| (0.0..=MAX_TIMEOUT_S).contains(timeout_s))
        .map(Duration::from_secs_f64)
        .ok_or_else(|| {
            let limit = format!("a number of seconds up to {MAX_TIMEOUT_S}");
            Refused::new("invalid-argument", format!("{name} is {value}, not {limit}."))
        })
}

/// The line that answers a request, its end of line included.
#[must_use]
pub fn render_answer(answer: &Result<Value, Refused>) -> String {
    let answer = match answer {
        Ok(result) => json!({"version": PROTOCOL_VERSION, "ok": true, "result": result}),
        Err(Refused { code, message }) => json!({
            "version": PROTOCOL_VERSION,
            "ok": false,
            "error": {"code": code, "message": message},
        }),
    };
    format!("{answer}\n")
}

/// The line that asks for `command`, its end of line included.
#[must_use]
pub fn render_request(command: &str, arguments: Map<String, Value>) -> String {
    let mut request = Map::new();
    request.insert("version".to_owned(), PROTOCOL_VERSION.into());
    request.insert("command".to_owned(), command.into());
    request.extend(arguments);
    format!("{}\n", Value::Object(request))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn requests_are_read() {
        for (line, command) in [
            (r#"{"version":1,"command":"status"}"#, Command::Status),
            (r#" {"command" : "statistics", "version":1} "#, Command::Statistics),
            (r#"{"version":1,"command":"metrics"}"#, Command::Metrics),
            (r#"{"version":1,"command":"pause"}"#, Command::Pause),
            (r#"{"version":1,"command":"resume"}"#, Command::Resume),
            (r#"{"version":1,"command":"pace","paced":true}"#, Command::Pace { paced: true }),
            (r#"{"version":1,"command":"pace","paced":false}"#, Command::Pace { paced: false }),
            (r#"{"version":1,"command":"unquiesce"}"#, Command::Unquiesce),
            (
                r#"{"version":1,"command":"resize"}"#,
                Command::Resize { size_bytes: None, timeout: 30 * SECOND },
            ),
            (
                r#"{"version":1,"command":"resize","size_bytes":4096,"timeout_s":1}"#,
                Command::Resize { size_bytes: Some(4096), timeout: SECOND },
            ),
            (r#"{"version":1,"command":"flush"}"#, Command::Flush { timeout: 30 * SECOND }),
            (
                r#"{"version":1,"command":"flush","timeout_s":0.5}"#,
                Command::Flush { timeout: SECOND / 2 },
            ),
            (r#"{"version":1,"command":"draw-down"}"#, Command::DrawDown { timeout: 30 * SECOND }),
            (r#"{"version":1,"command":"quiesce"}"#, Command::Quiesce { timeout: 60 * SECOND }),
            (r#"{"version":1,"command":"check"}"#, Command::Check { timeout: 10 * SECOND }),
            (
                r#"{"version":1,"command":"snapshot","name":"s","timeout_s":1}"#,
                Command::Snapshot { name: "s".to_owned(), timeout: SECOND },
            ),
            (
                r#"{"version":1,"command":"close-image","limit_s":1}"#,
                Command::CloseImage { timeout: 60 * SECOND, limit: SECOND },
            ),
            (
                r#"{"version":1,"command":"open-image","timeout_s":1}"#,
                Command::OpenImage { image: None, timeout: SECOND },
            ),
            (
                r#"{"version":1,"command":"open-image","image":"p/n/i"}"#,
                Command::OpenImage { image: parse_image("p/n/i").ok(), timeout: 60 * SECOND },
            ),
            (
                r#"{"version":1,"command":"stop","timeout_s":0}"#,
                Command::Stop { timeout: Duration::ZERO, leaves_journal: false },
            ),
            (
                r#"{"version":1,"command":"stop","leave_journal":true}"#,
                Command::Stop { timeout: DEFAULT_STOP_TIMEOUT, leaves_journal: true },
            ),
        ] {
            assert_eq!(parse_request(line.as_bytes()), Ok(command), "{line}");
        }
    }

    #[test]
    fn what_is_wrong_with_a_request_is_said() {
        let nested = format!("{}{}", "[".repeat(10_000), "]".repeat(10_000));
        for (line, code) in [
            ("", "malformed-request"),
            ("status", "malformed-request"),
            ("{", "malformed-request"),
            ("[]", "malformed-request"),
            ("null", "malformed-request"),
            ("\"\\ud800\"", "malformed-request"),
            (nested.as_str(), "malformed-request"),
            (r#"{"version":1,"command":"status"} x"#, "malformed-request"),
            (r#"{"command":"status"}"#, "malformed-request"),
            (r#"{"version":1}"#, "malformed-request"),
            (r#"{"version":1,"command":7}"#, "malformed-request"),
            (r#"{"version":2,"command":"status"}"#, "unsupported-version"),
            (r#"{"version":"1","command":"status"}"#, "unsupported-version"),
            (r#"{"version":-1,"command":"status"}"#, "unsupported-version"),
            (r#"{"version":1.5,"command":"status"}"#, "unsupported-version"),
            (r#"{"version":1,"command":"format"}"#, "unknown-command"),
            (r#"{"version":1,"command":""}"#, "unknown-command"),
            (r#"{"version":1,"command":"Status"}"#, "unknown-command"),
            (r#"{"version":1,"command":"status","size_bytes":1}"#, "unknown-argument"),
            (r#"{"version":1,"command":"flush","size_bytes":1}"#, "unknown-argument"),
            (r#"{"version":1,"command":"resize","size_bytes":-1}"#, "invalid-argument"),
            (r#"{"version":1,"command":"resize","size_bytes":1.5}"#, "invalid-argument"),
            (r#"{"version":1,"command":"resize","size_bytes":1e30}"#, "invalid-argument"),
            (r#"{"version":1,"command":"resize","size_bytes":"1G"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"flush","timeout_s":-1}"#, "invalid-argument"),
            (r#"{"version":1,"command":"flush","timeout_s":1e9}"#, "invalid-argument"),
            (r#"{"version":1,"command":"flush","timeout_s":null}"#, "invalid-argument"),
            (r#"{"version":1,"command":"pace"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"pace","paced":"on"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"snapshot"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"snapshot","name":""}"#, "invalid-argument"),
            (r#"{"version":1,"command":"snapshot","name":"a@b"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"snapshot","name":7}"#, "invalid-argument"),
            (r#"{"version":1,"command":"close-image","limit_s":"1"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"open-image","image":"disk"}"#, "invalid-argument"),
            (r#"{"version":1,"command":"open-image","image":7}"#, "invalid-argument"),
            (r#"{"version":1,"command":"open-image","limit_s":1}"#, "unknown-argument"),
        ] {
            let refused = parse_request(line.as_bytes()).expect_err(line);
            assert_eq!(refused.code, code, "{line:.80}: {refused}");
            assert!(refused.message.ends_with('.'), "{refused}");
        }
        assert_eq!(parse_request(&[0xFF, 0xFE]).map_err(|e| e.code), Err("malformed-request"));
    }

    #[test]
    fn what_is_written_can_be_read() {
        let mut arguments = Map::new();
        arguments.insert("timeout_s".to_owned(), json!(2.0));
        let line = render_request("flush", arguments);
        assert_eq!(
            parse_request(line.trim_end().as_bytes()),
            Ok(Command::Flush { timeout: 2 * SECOND })
        );
        assert!(line.ends_with('\n') && line.matches('\n').count() == 1);

        let good = render_answer(&Ok(json!({"text": "a\nb"})));
        assert_eq!(good.matches('\n').count(), 1, "an answer is one line");
        let bad = render_answer(&Err(Refused::new("busy", "Wait.")));
        let bad: Value = serde_json::from_str(&bad).unwrap();
        assert_eq!(
            bad,
            json!({"version": 1, "ok": false,
            "error": {"code": "busy", "message": "Wait."}})
        );
    }
}
