//! What someone who has just started the gateway needs to know.

use std::io::{self, Write};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};

use super::assemble::redis_address;
use crate::config::{SessionsConfig, Store};
use crate::tools::SourceReport;
use crate::tools::source::SourceState;
use crate::version;

/// What the gateway prints once it is listening.
pub(super) struct Greeting<'g> {
    pub(super) address: SocketAddr,
    /// `http` or `https`.
    pub(super) scheme: &'g str,
    pub(super) model: &'g str,
    pub(super) wants_key: bool,
    pub(super) sources: &'g [SourceReport],
    /// Where conversations are kept.
    pub(super) keeps: &'g str,
}

impl Greeting<'_> {
    /// Prints what to open, what to try, and where the tools come from.
    pub(super) fn print(&self, out: &mut impl Write) -> io::Result<()> {
        let (address, model) = (reachable(self.address), self.model);
        let scheme = self.scheme;
        let key = if self.wants_key { " -H 'Authorization: Bearer KEY'" } else { "" };
        writeln!(
            out,
            "tether {} is serving the model \"{model}\"\n\n  \
             open    {scheme}://{address}/\n  \
             or try  curl -N {scheme}://{address}/api/v1/chat/stream{key} -d '{{\"prompt\":\"What time is it in Tokyo?\"}}'\n  \
             tools   {}\n  \
             keeps   {}\n",
            version::VERSION,
            offered(self.sources),
            self.keeps,
        )?;
        out.flush()
    }
}

/// Where conversations are kept.
pub(super) fn kept(config: &SessionsConfig) -> String {
    match config.store {
        Store::Memory => "conversations until it ends; --state DIR keeps them longer".to_owned(),
        Store::Embedded => format!("conversations in {}", config.embedded.path.display()),
        Store::Redis => match redis_address(&config.redis) {
            Ok(address) => format!("conversations in {address}"),
            Err(reason) => reason,
        },
    }
}

/// The address, or loopback if the gateway listens on all addresses: a browser needs one.
fn reachable(mut address: SocketAddr) -> SocketAddr {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    address
}

/// How many tools there are, from which sources, and where to read why some are missing.
fn offered(sources: &[SourceReport]) -> String {
    let total: usize = sources.iter().map(|source| source.tools).sum();
    let counted = sources.iter().filter(|source| source.tools > 0);
    let counted: Vec<_> =
        counted.map(|source| format!("{} from {}", source.tools, source.source)).collect();
    let mut told = match &counted[..] {
        [] => "none".to_owned(),
        [_, _, ..] => format!("{total}: {}", counted.join(", ")),
        [one] => one.clone(),
    };
    let named = |state| {
        let of = sources.iter().filter(move |source| source.state == state);
        of.map(|source| source.source.to_string()).collect::<Vec<_>>().join(", ")
    };
    let (starting, failed) = (named(SourceState::Starting), named(SourceState::Failed));
    let left_out: usize = sources.iter().map(|source| source.left_out.len()).sum();
    let notes = [
        (!starting.is_empty()).then(|| format!("waiting for {starting}")),
        (!failed.is_empty()).then(|| format!("failed: {failed}")),
        (left_out > 0).then(|| format!("{left_out} not offered (the log says why)")),
    ];
    for note in notes.into_iter().flatten() {
        told = format!("{told}; {note}");
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::source::LeftOut;
    use crate::tools::{Source, SourceKind};

    fn greeting(address: &str, wants_key: bool, sources: &[SourceReport]) -> String {
        let address = address.parse().unwrap();
        let mut out = Vec::new();
        Greeting { address, scheme: "http", model: "qwen3", wants_key, sources, keeps: "nothing" }
            .print(&mut out)
            .unwrap();
        String::from_utf8(out).unwrap()
    }

    #[track_caller]
    fn check(address: &str, wants_key: bool, opened: &str, tried: &str) {
        let greeting = greeting(address, wants_key, &[]);
        assert!(greeting.contains(&format!("open    {opened}\n")), "{greeting}");
        assert!(greeting.contains(&format!("or try  curl -N {tried} -d '{{")), "{greeting}");
    }

    #[test]
    fn the_greeting_shows_working_addresses() {
        let stream = "/api/v1/chat/stream";
        for (address, opened) in [
            ("127.0.0.1:8080", "http://127.0.0.1:8080/"),
            ("10.1.2.3:80", "http://10.1.2.3:80/"),
            ("0.0.0.0:8080", "http://127.0.0.1:8080/"),
            ("[::]:8080", "http://[::1]:8080/"),
        ] {
            let origin = opened.trim_end_matches('/');
            check(address, false, opened, &format!("{origin}{stream}"));
            let with_key = format!("{origin}{stream} -H 'Authorization: Bearer KEY'");
            check(address, true, opened, &with_key);
        }
    }

    #[test]
    fn the_greeting_says_where_tools_come_from() {
        let report =
            |source, state, tools| SourceReport { tools, ..SourceReport::new(source, state) };
        let builtin = report(Source::builtin(), SourceState::Ready, 2);
        let mcp = |name, state| report(Source::entry(SourceKind::Mcp, name), state, 0);
        let grep = Source::entry(SourceKind::Command, "grep");
        let left_out = vec![LeftOut { name: "grep".to_owned(), reason: String::new() }];
        let none = SourceReport { left_out, ..report(grep, SourceState::Ready, 0) };
        for (sources, told) in [
            (vec![], "none"),
            (vec![builtin.clone()], "2 from builtin"),
            (
                vec![builtin.clone(), report(Source::builtin(), SourceState::Ready, 1)],
                "3: 2 from builtin, 1 from builtin",
            ),
            (
                vec![builtin.clone(), mcp("files", SourceState::Starting)],
                "2 from builtin; waiting for mcp files",
            ),
            (
                vec![builtin, mcp("files", SourceState::Failed), none],
                "2 from builtin; failed: mcp files; 1 not offered (the log says why)",
            ),
        ] {
            let greeting = greeting("127.0.0.1:1", false, &sources);
            assert!(greeting.contains(&format!("\n  tools   {told}\n")), "{greeting}");
        }
    }

    #[test]
    fn it_says_where_conversations_are_kept() {
        let mut config = SessionsConfig { store: Store::Memory, ..SessionsConfig::default() };
        assert!(kept(&config).starts_with("conversations until it ends; --state DIR"));
        config.store = Store::Embedded;
        config.embedded.path = "/state/tether.db".into();
        assert_eq!(kept(&config), "conversations in /state/tether.db");
        config.store = Store::Redis;
        config.redis.url = "redis://127.0.0.1:6379".to_owned();
        assert_eq!(kept(&config), "conversations in Redis at 127.0.0.1:6379");
    }
}
