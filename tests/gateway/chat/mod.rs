//! `tether chat` in front of a real gateway: what a script sees, and what a person sees.

mod breaks;
mod piped;
mod played;
mod program;
mod terminal;

use std::net::SocketAddr;
use std::process::Stdio;

use tokio::io::AsyncWriteExt as _;
use tokio::process::Command;

use crate::support::process::TETHER;
use crate::support::within;

/// The command for the gateway at this address, without a key.
fn chat(address: SocketAddr, arguments: &[&str]) -> Command {
    chat_at(&format!("http://{address}"), arguments)
}

/// The same for the gateway at this URL.
fn chat_at(url: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(TETHER);
    command.arg("chat").args(["--url", url]).args(arguments);
    command.env_remove("TETHER_API_KEY").env_remove("NO_COLOR").kill_on_drop(true);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// The end of a command that was given this on standard input.
#[derive(Debug)]
struct Ended {
    status: Option<i32>,
    answer: String,
    notes: String,
}

/// Runs the command to its end.
#[track_caller]
fn run(mut command: Command, input: impl Into<Vec<u8>>) -> impl Future<Output = Ended> {
    let input = input.into();
    within(async move {
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // It may not read what it does not need.
        let _ = stdin.write_all(&input).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Ended {
            status: output.status.code(),
            answer: text(output.stdout),
            notes: text(output.stderr),
        }
    })
}
