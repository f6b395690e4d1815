//! The scripts. Redis runs each in one step, so a check and the write after it cannot be separated.

use std::fmt::Write as _;

use redis::Cmd;
use ring::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};

/// A script, and the digest by which servers know it.
#[derive(Debug)]
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    fn new(text: &'static str) -> Self {
        let mut name = String::new();
        for byte in digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref() {
            let _ = write!(name, "{byte:02x}");
        }
        Self { text, digest: name }
    }
}

/// The scripts, ready to be called by their digests.
#[derive(Debug)]
pub(super) struct Scripts {
    pub(super) acquire: Script,
    pub(super) renew: Script,
    pub(super) note_reader: Script,
    pub(super) release: Script,
    pub(super) cancel: Script,
    pub(super) state: Script,
    pub(super) load: Script,
    pub(super) write: Script,
    pub(super) read: Script,
    pub(super) keep_file: Script,
    pub(super) forget: Script,
    pub(super) was_forgotten: Script,
    pub(super) list: Script,
    pub(super) copy: Script,
    pub(super) restore: Script,
    pub(super) lapsed: Script,
    pub(super) unlist: Script,
    pub(super) keep_entry: Script,
    pub(super) find_entries: Script,
    pub(super) acquire_claim: Script,
    pub(super) release_claim: Script,
    pub(super) forget_entries: Script,
}

/// The text of a script, with what all scripts of a session begin with.
macro_rules! script {
    ($name:literal) => {
        Script::new(concat!(
            include_str!("scripts/prelude.lua"),
            include_str!(concat!("scripts/", $name, ".lua"))
        ))
    };
}

/// The same for a script of an owner.
macro_rules! owner_script {
    ($name:literal) => {
        Script::new(concat!(
            include_str!("scripts/owner_prelude.lua"),
            include_str!(concat!("scripts/", $name, ".lua"))
        ))
    };
}

impl Scripts {
    pub(super) fn new() -> Self {
        Self {
            acquire: script!("acquire"),
            renew: script!("renew"),
            note_reader: script!("note_reader"),
            release: script!("release"),
            cancel: script!("cancel"),
            state: script!("state"),
            load: script!("load"),
            write: script!("write"),
            read: script!("read"),
            keep_file: script!("keep_file"),
            forget: script!("forget"),
            was_forgotten: script!("was_forgotten"),
            list: script!("list"),
            copy: script!("copy"),
            restore: script!("restore"),
            lapsed: Script::new(include_str!("scripts/lapsed.lua")),
            unlist: Script::new(include_str!("scripts/unlist.lua")),
            keep_entry: owner_script!("keep_entry"),
            find_entries: owner_script!("find_entries"),
            acquire_claim: owner_script!("acquire_claim"),
            release_claim: owner_script!("release_claim"),
            forget_entries: owner_script!("forget_entries"),
        }
    }
}

/// A call of a script, with its keys and arguments.
#[derive(Debug)]
pub(super) struct Call<'s> {
    script: &'s Script,
    keys: Vec<&'s str>,
    arguments: Vec<Argument<'s>>,
}

/// An argument of a script.
#[derive(Debug)]
enum Argument<'s> {
    Bytes(&'s [u8]),
    Number(u64),
}

impl<'s> Call<'s> {
    pub(super) fn new(script: &'s Script, keys: &[&'s str]) -> Self {
        Self::with_capacity(script, keys, 0)
    }

    /// The same with room for this many arguments: a write has them for each token.
    pub(super) fn with_capacity(script: &'s Script, keys: &[&'s str], arguments: usize) -> Self {
        Self { script, keys: keys.to_vec(), arguments: Vec::with_capacity(arguments) }
    }

    /// The key that says which server of a cluster it is for.
    pub(super) fn key(&self) -> &str {
        self.keys[0]
    }

    pub(super) fn bytes(mut self, bytes: &'s [u8]) -> Self {
        self.arguments.push(Argument::Bytes(bytes));
        self
    }

    pub(super) fn text(self, text: &'s str) -> Self {
        self.bytes(text.as_bytes())
    }

    pub(super) fn number(mut self, number: u64) -> Self {
        self.arguments.push(Argument::Number(number));
        self
    }

    /// The call by its digest or, if the server does not know that yet, with the script itself.
    pub(super) fn command(&self, by_digest: bool) -> Cmd {
        let (name, script) =
            if by_digest { ("EVALSHA", &*self.script.digest) } else { ("EVAL", self.script.text) };
        let bytes = name.len() + script.len() + self.length();
        let mut command = Cmd::with_capacity(3 + self.keys.len() + self.arguments.len(), bytes);
        command.arg(name).arg(script);
        command.arg(self.keys.len()).arg(&self.keys);
        for argument in &self.arguments {
            match argument {
                Argument::Bytes(bytes) => command.arg(*bytes),
                Argument::Number(number) => command.arg(*number),
            };
        }
        command
    }

    /// An upper bound of the bytes of its keys and arguments.
    fn length(&self) -> usize {
        let keys = self.keys.iter().map(|key| key.len());
        let arguments = self.arguments.iter().map(|argument| match argument {
            Argument::Bytes(bytes) => bytes.len(),
            Argument::Number(_) => NUMBER_BYTES_MAX,
        });
        NUMBER_BYTES_MAX + keys.chain(arguments).sum::<usize>()
    }
}

/// Digits of the largest `u64`.
const NUMBER_BYTES_MAX: usize = 20;
