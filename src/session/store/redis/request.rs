//! What servers are asked.

use redis::aio::MultiplexedConnection;
use redis::{Cmd, Pipeline, RedisError, RedisResult, ServerErrorKind, Value, cmd};

use super::scripts::Call;

/// A command, and the key that says which server of a cluster it is for.
#[derive(Debug)]
pub(super) struct Command {
    pub(super) key: String,
    command: Cmd,
}

impl Command {
    /// A command whose first argument is its key.
    pub(super) fn new(name: &str, key: String) -> Self {
        let mut command = cmd(name);
        command.arg(&key);
        Self { key, command }
    }

    /// A script for one key. It runs as one step, unlike several commands.
    pub(super) fn script(script: &str, key: String) -> Self {
        let mut command = cmd("EVAL");
        command.arg(script).arg(1).arg(&key);
        Self { key, command }
    }

    pub(super) fn arg(&mut self, argument: impl redis::ToRedisArgs) -> &mut Self {
        self.command.arg(argument);
        self
    }
}

/// Commands whose answers do not matter, except that there are some.
#[derive(Debug, Default)]
pub(super) struct Commands(Vec<Command>);

impl Commands {
    pub(super) fn add(&mut self, name: &str, key: String) -> &mut Command {
        self.push(Command::new(name, key))
    }

    pub(super) fn push(&mut self, command: Command) -> &mut Command {
        self.0.push(command);
        self.0.last_mut().expect("one was added")
    }

    /// The commands together, or those of each part together.
    pub(super) fn by<P: PartialEq>(&self, part: impl Fn(&str) -> P) -> Vec<Vec<&Command>> {
        let mut parts: Vec<(P, Vec<&Command>)> = Vec::new();
        for command in &self.0 {
            let its = part(&command.key);
            match parts.iter_mut().find(|(other, _)| *other == its) {
                Some((_, commands)) => commands.push(command),
                None => parts.push((its, vec![command])),
            }
        }
        parts.into_iter().map(|(_, commands)| commands).collect()
    }
}

/// What a server is asked at once.
#[derive(Debug, Clone, Copy)]
pub(super) enum Request<'r> {
    Call(&'r Call<'r>),
    /// Something for no key.
    Plain(&'r Cmd),
    Command(&'r Command),
    Commands(&'r [&'r Command]),
}

impl Request<'_> {
    /// Sends it. If it `asks`, the server answers although the keys are still being moved there.
    pub(super) async fn send(
        &self,
        connection: &mut MultiplexedConnection,
        asks: bool,
    ) -> RedisResult<Value> {
        match self {
            Self::Call(call) => match send(&call.command(true), connection, asks).await {
                Err(error) if is_unknown_script(&error) => {
                    send(&call.command(false), connection, asks).await
                }
                answer => answer,
            },
            Self::Plain(command) => send(command, connection, asks).await,
            Self::Command(command) => send(&command.command, connection, asks).await,
            Self::Commands(commands) => {
                let mut pipe = Pipeline::with_capacity(2 * commands.len());
                for command in *commands {
                    if asks {
                        pipe.add_command(cmd("ASKING"));
                    }
                    pipe.add_command(command.command.clone());
                }
                pipe.query_async(connection).await.map_err(first_failure)
            }
        }
    }
}

async fn send(
    command: &Cmd,
    connection: &mut MultiplexedConnection,
    asks: bool,
) -> RedisResult<Value> {
    if !asks {
        return command.query_async(connection).await;
    }
    let mut pipe = Pipeline::with_capacity(2);
    pipe.add_command(cmd("ASKING")).ignore().add_command(command.clone());
    let [answer]: [Value; 1] = pipe.query_async(connection).await.map_err(first_failure)?;
    Ok(answer)
}

/// Of several failures, the first, as if its command had been sent alone: an error for several has no details.
fn first_failure(error: RedisError) -> RedisError {
    match error.clone().into_server_errors().as_deref() {
        Some([(_, first), ..]) => first.clone().into(),
        _ => error,
    }
}

fn is_unknown_script(error: &RedisError) -> bool {
    error.kind() == ServerErrorKind::NoScript.into()
}
