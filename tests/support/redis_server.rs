//! A real Redis server, in a directory of its own, on a Unix socket there.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::yield_now;

/// A server that runs until it is dropped.
#[derive(Debug)]
pub(crate) struct RedisServer {
    directory: tempfile::TempDir,
    arguments: Vec<String>,
    child: Option<Child>,
}

const SENTINEL: &str = "sentinel.conf";

/// The program: what `tests/run` has unpacked, or what is installed.
fn program() -> PathBuf {
    let unpacked = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/.cache/redis/redis-server");
    if unpacked.exists() { unpacked } else { PathBuf::from("redis-server") }
}

impl RedisServer {
    /// Starts a server that keeps nothing on disk.
    pub(crate) fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(arguments: &[&str]) -> Self {
        let directory = tempfile::Builder::new().prefix("redis").tempdir().unwrap();
        let arguments = arguments.iter().map(ToString::to_string).collect();
        let mut server = Self { directory, arguments, child: None };
        server.run();
        server
    }

    /// Starts a Sentinel with this configuration.
    pub(crate) fn start_sentinel(config: &str) -> Self {
        let directory = tempfile::Builder::new().prefix("redis").tempdir().unwrap();
        std::fs::write(directory.path().join(SENTINEL), config).unwrap();
        let arguments = vec![SENTINEL.to_owned(), "--sentinel".to_owned()];
        let mut server = Self { directory, arguments, child: None };
        server.run();
        server
    }

    /// Starts the server again, after it was stopped.
    pub(crate) fn run(&mut self) {
        let mut command = Command::new(program());
        // A Sentinel's file comes first.
        if self.arguments.first().is_some_and(|first| first == SENTINEL) {
            command.args(&self.arguments).args(["--unixsocket", "redis.sock"]);
        } else {
            command.args(["--port", "0", "--save", "", "--unixsocket", "redis.sock", "--dir"]);
            command.arg(self.directory.path()).args(&self.arguments);
        }
        command.current_dir(self.directory.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("redis-server cannot be started ({error}): `tests/run test` unpacks one")
        });
        let mut log = BufReader::new(child.stdout.take().unwrap());
        self.child = Some(child);
        let mut line = String::new();
        while !line.contains("eady to accept connections") && !line.contains("+monitor master") {
            line.clear();
            assert_ne!(log.read_line(&mut line).unwrap(), 0, "it has stopped");
        }
        // Its pipe must not fill up.
        std::thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
    }

    /// Kills it, as a crash would.
    pub(crate) fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            // It may have ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    /// Waits until its replica has all that it has.
    pub(crate) fn wait_for_replica(&self) {
        loop {
            let told = self.command(&["INFO", "replication"]);
            let after = |name: &str| {
                let (_, rest) = told.split_once(name)?;
                rest.split([',', '\r']).next().map(str::to_owned)
            };
            let all = after("master_repl_offset:");
            if told.contains("state=online") && after(",offset=") == all {
                return;
            }
            yield_now();
        }
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().expect("it runs").id().to_string();
        assert!(Command::new("kill").args(["-s", name, &pid]).status().unwrap().success());
    }

    pub(crate) fn url(&self) -> String {
        format!("unix://{}", self.directory.path().join("redis.sock").display())
    }

    /// Its answer to a command, as it is written on the wire.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        let mut stream = UnixStream::connect(self.directory.path().join("redis.sock")).unwrap();
        let written = words.iter().map(|word| format!("${}\r\n{word}\r\n", word.len()));
        let mut request = format!("*{}\r\n", words.len()) + &written.collect::<String>();
        // It closes the connection after that, or does not know it, as a Sentinel.
        request += "*1\r\n$4\r\nQUIT\r\n";
        // In a failover, a server drops its clients: that is no answer.
        let _ = stream.write_all(request.as_bytes());
        let (mut answer, mut piece) = (String::new(), [0; 4096]);
        loop {
            let length = stream.read(&mut piece).unwrap_or(0);
            answer += std::str::from_utf8(&piece[..length]).unwrap();
            if let Some((answer, _)) = answer.split_once("-ERR unknown command 'QUIT'") {
                return answer.to_owned();
            }
            if length == 0 {
                return answer.trim_end_matches("+OK\r\n").to_owned();
            }
        }
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        self.kill();
    }
}
