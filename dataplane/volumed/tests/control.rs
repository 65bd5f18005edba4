//! The control socket, with clients that are well, slow, rude, many.

#![allow(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test may fail loudly"
)]

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use grampus_volumed::client::{AskError, ask};
use grampus_volumed::protocol::{Command, Refused};
use grampus_volumed::server::{Commands, ControlError, ControlServer, ControlSocket, Limits};
use serde_json::{Map, Value, json};

const PATIENCE: Duration = Duration::from_secs(60);
const LIMITS: Limits =
    Limits { clients: 3, line_bytes: 200, line: PATIENCE, idle: PATIENCE, answer: PATIENCE };

/// Says what it was asked; `pause` waits until the test lets it go on.
#[derive(Default)]
struct Echo {
    may_go_on: Mutex<bool>,
    changed: Condvar,
}

impl Commands for Echo {
    fn carry_out(&self, command: Command) -> Result<Value, Refused> {
        match command {
            Command::Pause => {
                let waiting = self.may_go_on.lock().unwrap();
                drop(self.changed.wait_while(waiting, |go_on| !*go_on).unwrap());
                Ok(json!("went on"))
            }
            Command::Resume => Err(Refused::new("not-paused", "Nothing is paused.")),
            other => Ok(json!(format!("{other:?}"))),
        }
    }
}

struct Fixture {
    directory: tempfile::TempDir,
    echo: Arc<Echo>,
    server: Option<ControlServer>,
}

impl Fixture {
    fn new(limits: Limits) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let echo = Arc::new(Echo::default());
        let socket = ControlSocket::bind(&directory.path().join("control")).unwrap();
        let server = socket.serve(Arc::<Echo>::clone(&echo), limits, None).unwrap();
        Self { directory, echo, server: Some(server) }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("control")
    }

    fn connect(&self) -> Client {
        Client::new(UnixStream::connect(self.path()).unwrap())
    }

    fn go_on(&self) {
        *self.echo.may_go_on.lock().unwrap() = true;
        self.echo.changed.notify_all();
    }
}

struct Client(BufReader<UnixStream>);

impl Client {
    fn new(stream: UnixStream) -> Self {
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Self(BufReader::new(stream))
    }

    fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    /// The next answer; None when the server has closed.
    fn answer(&mut self) -> Option<Value> {
        let mut line = String::new();
        match self.0.read_line(&mut line) {
            Ok(0) => None,
            Ok(_) => Some(serde_json::from_str(&line).unwrap()),
            // Closed while something of ours was not yet read.
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => None,
            Err(error) => panic!("{error}"),
        }
    }

    fn code(&mut self) -> String {
        let answer = self.answer().unwrap();
        assert_eq!((&answer["version"], &answer["ok"]), (&json!(1), &json!(false)));
        answer["error"]["code"].as_str().unwrap().to_owned()
    }
}

const STATUS: &[u8] = b"{\"version\":1,\"command\":\"status\"}\n";

#[test]
fn a_client_asks_as_often_as_it_likes_and_mistakes_cost_nothing() {
    let fixture = Fixture::new(LIMITS);
    let mut client = fixture.connect();
    for (request, expected) in [
        ("{\"version\":1,\"command\":\"status\"}\n", "Status"),
        ("\n", "malformed-request"),
        ("not json\n", "malformed-request"),
        ("{\"version\":9,\"command\":\"status\"}\n", "unsupported-version"),
        ("{\"version\":1,\"command\":\"dance\"}\n", "unknown-command"),
        ("{\"version\":1,\"command\":\"resume\"}\n", "not-paused"),
        ("{\"version\":1,\"command\":\"metrics\"}\r\n", "Metrics"),
    ] {
        client.send(request.as_bytes());
        let answer = client.answer().unwrap();
        assert_eq!(answer["version"], json!(1));
        let said =
            if answer["ok"] == json!(true) { &answer["result"] } else { &answer["error"]["code"] };
        assert_eq!(said, &json!(expected), "{request}");
    }
}

#[test]
fn requests_may_come_in_pieces_or_together() {
    let fixture = Fixture::new(LIMITS);
    let mut client = fixture.connect();
    for byte in STATUS {
        client.send(&[*byte]);
    }
    client.send(&[STATUS, STATUS].concat());
    for _ in 0..3 {
        assert_eq!(client.answer().unwrap()["result"], json!("Status"));
    }
}

#[test]
fn a_line_without_end_is_cut_off() {
    let fixture = Fixture::new(LIMITS);
    for request in [vec![b'x'; LIMITS.line_bytes + 1], [vec![b'x'; 201], b"\n".to_vec()].concat()] {
        let mut client = fixture.connect();
        client.send(&request);
        assert_eq!(client.code(), "line-too-long");
        assert!(client.answer().is_none());
    }
    let mut client = fixture.connect();
    client.send(&[vec![b' '; LIMITS.line_bytes - STATUS.len() + 1], STATUS.to_vec()].concat());
    assert_eq!(client.answer().unwrap()["result"], json!("Status"), "just as long as allowed");
}

#[test]
fn slow_and_silent_clients_are_sent_away() {
    let brief = Duration::from_millis(20);
    for (limits, sent) in
        [(Limits { line: brief, ..LIMITS }, &STATUS[..10]), (Limits { idle: brief, ..LIMITS }, &[])]
    {
        let fixture = Fixture::new(limits);
        let mut client = fixture.connect();
        client.send(sent);
        assert_eq!(client.code(), "too-slow");
        assert!(client.answer().is_none());
    }
}

#[test]
fn a_client_that_drips_bytes_gets_no_longer_than_one_that_is_silent() {
    let fixture = Fixture::new(Limits { line: Duration::from_millis(50), ..LIMITS });
    let mut client = fixture.connect();
    // Each byte comes long before the limit; together they never end.
    while client.0.get_mut().write_all(b" ").is_ok() {
        client.0.get_mut().set_nonblocking(true).unwrap();
        let mut answer = [0; 64];
        let read = client.0.get_mut().read(&mut answer);
        client.0.get_mut().set_nonblocking(false).unwrap();
        if read.is_ok() {
            return; // the refusal
        }
        std::thread::yield_now();
    }
}

#[test]
fn a_client_that_does_not_take_its_answers_is_sent_away() {
    let fixture = Fixture::new(Limits { answer: Duration::from_millis(20), ..LIMITS });
    let mut deaf = fixture.connect();
    // Ends with an error once the server has closed, or never.
    while deaf.0.get_mut().write_all(STATUS).is_ok() {}
    let mut other = fixture.connect();
    other.send(STATUS);
    assert_eq!(other.answer().unwrap()["result"], json!("Status"));
}

#[test]
fn one_client_that_waits_keeps_no_other_waiting() {
    let fixture = Fixture::new(LIMITS);
    let mut waiting = fixture.connect();
    waiting.send(b"{\"version\":1,\"command\":\"pause\"}\n");
    let mut quick = fixture.connect();
    quick.send(STATUS);
    assert_eq!(quick.answer().unwrap()["result"], json!("Status"));
    fixture.go_on();
    assert_eq!(waiting.answer().unwrap()["result"], json!("went on"));
}

#[test]
fn clients_past_the_limit_are_told_to_come_back() {
    let fixture = Fixture::new(LIMITS);
    let mut served: Vec<Client> = (0..3)
        .map(|_| {
            let mut client = fixture.connect();
            client.send(STATUS);
            client.answer().unwrap();
            client
        })
        .collect();
    let mut fourth = fixture.connect();
    assert_eq!(fourth.code(), "too-many-clients");
    assert!(fourth.answer().is_none());

    served.pop();
    loop {
        let mut again = fixture.connect();
        if again.0.get_mut().write_all(STATUS).is_err() {
            continue; // refused once more: the one that left is still being seen off
        }
        match again.answer() {
            Some(answer) if answer["ok"] == json!(true) => break,
            _ => std::thread::yield_now(),
        }
    }
}

#[test]
fn an_answer_that_is_due_is_given_before_the_end() {
    let mut fixture = Fixture::new(LIMITS);
    let mut waiting = fixture.connect();
    waiting.send(b"{\"version\":1,\"command\":\"pause\"}\n");
    let mut idle = fixture.connect();
    idle.send(STATUS);
    idle.answer().unwrap();
    let server = fixture.server.take();
    std::thread::scope(|scope| {
        scope.spawn(|| drop(server));
        assert!(idle.answer().is_none(), "an idle client keeps no server alive");
        fixture.go_on();
        assert_eq!(waiting.answer().unwrap()["result"], json!("went on"));
    });
    assert!(!fixture.path().exists());
}

#[test]
fn the_socket_is_its_owners_alone() {
    let fixture = Fixture::new(LIMITS);
    let mode = fixture.path().metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn only_a_dead_daemons_socket_is_replaced() {
    let fixture = Fixture::new(LIMITS);
    let bound = ControlSocket::bind(&fixture.path());
    assert!(matches!(bound, Err(ControlError::InUse { .. })), "{bound:?}");
    let mut client = fixture.connect();
    client.send(STATUS);
    assert!(client.answer().is_some(), "the living one goes on");

    let left = fixture.directory.path().join("left");
    drop(UnixListener::bind(&left).unwrap());
    assert!(left.exists());
    ControlSocket::bind(&left).unwrap();

    let file = fixture.directory.path().join("file");
    std::fs::write(&file, "precious").unwrap();
    assert!(matches!(ControlSocket::bind(&file), Err(ControlError::NotASocket { .. })));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let nowhere = fixture.directory.path().join("no/such/directory");
    assert!(matches!(ControlSocket::bind(&nowhere), Err(ControlError::Io { .. })));
}

#[test]
fn a_socket_may_have_a_path_of_any_length() {
    let directory = tempfile::tempdir().unwrap();
    let mut place = directory.path().to_owned();
    for _ in 0..3 {
        place.push("x".repeat(100));
    }
    std::fs::create_dir_all(&place).unwrap();
    let path = place.join("control");
    let socket = ControlSocket::bind(&path).unwrap();
    assert!(path.symlink_metadata().unwrap().file_type().is_socket());
    let server = socket.serve(Arc::new(Echo::default()), LIMITS, None).unwrap();
    assert!(matches!(ControlSocket::bind(&path), Err(ControlError::InUse { .. })));
    assert_eq!(ask(&path, "status", Map::new(), PATIENCE).unwrap(), json!("Status"));
    drop(server);
    assert!(!path.exists());
}

#[test]
fn a_socket_that_another_daemon_took_over_is_left_to_it() {
    let mut fixture = Fixture::new(LIMITS);
    std::fs::remove_file(fixture.path()).unwrap();
    let other = UnixListener::bind(fixture.path()).unwrap();
    drop(fixture.server.take());
    assert!(fixture.path().exists());
    UnixStream::connect(fixture.path()).unwrap();
    drop(other);
}

#[test]
fn the_client_tells_its_user_what_happened() {
    let fixture = Fixture::new(LIMITS);
    let asked = |path: &Path, command| ask(path, command, Map::new(), PATIENCE);
    assert_eq!(asked(&fixture.path(), "status").unwrap(), json!("Status"));
    let refused = asked(&fixture.path(), "resume").unwrap_err();
    assert!(matches!(&refused, AskError::Refused { code, .. } if code == "not-paused"));
    let nobody = asked(&fixture.directory.path().join("nobody"), "status").unwrap_err();
    assert!(matches!(nobody, AskError::NoDaemon { .. }), "{nobody}");

    let odd = fixture.directory.path().join("odd");
    let listener = UnixListener::bind(&odd).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for answer in [&b"hello\n"[..], b""] {
                let (mut stream, _) = listener.accept().unwrap();
                let mut request = String::new();
                BufReader::new(stream.try_clone().unwrap()).read_line(&mut request).unwrap();
                stream.write_all(answer).unwrap();
            }
        });
        assert!(matches!(asked(&odd, "status"), Err(AskError::Odd { .. })));
        assert!(matches!(asked(&odd, "status"), Err(AskError::Lost { .. })));
    });
}
