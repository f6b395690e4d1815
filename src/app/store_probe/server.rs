//! Tries the server of `sessions.store: redis`.

use std::collections::HashMap;

use crate::app::assemble::{redis_address, redis_store};
use crate::app::finding::Finding::{self, Fault, Note, Warning};
use crate::config::SessionsConfig;
use crate::limits::session::REQUEST_SLOW;
use crate::session::store::{ServerReport, StoreError};

/// Does what turns do, in a session of its own, and says how far the server can be relied on.
pub(super) async fn probe(config: &SessionsConfig) -> Vec<Finding> {
    let store = match redis_store(config) {
        Ok(store) => store,
        Err(error) => return vec![Fault(error.to_string())],
    };
    let place = redis_address(&config.redis).map(|it| it.to_string()).unwrap_or_default();
    match store.examine().await {
        Ok(report) => {
            let mut findings = vec![of_server(&place, &report)];
            // Servers of a cluster are mostly alike.
            for settings in &report.settings {
                for finding in of_settings(settings) {
                    if !findings.contains(&finding) {
                        findings.push(finding);
                    }
                }
            }
            findings
        }
        Err(StoreError::Unavailable(cause)) => vec![Fault(format!("{place}: {cause}"))],
        Err(error) => vec![Fault(format!("{place}: {error}"))],
    }
}

fn of_server(place: &str, report: &ServerReport) -> Finding {
    let ServerReport { server, write, primaries, .. } = report;
    let place = match primaries {
        Some(count) => format!("{place}: {count} primaries, which have all slots"),
        None => place.to_owned(),
    };
    let took = format!("a write takes {:.2} ms", write.as_secs_f64() * 1000.0);
    Note(if *write >= REQUEST_SLOW {
        format!(
            "{place}: {server}; the user has all rights that are needed; {took}, which delays every turn: \
             use a server nearby"
        )
    } else {
        format!("{place}: {server}; the user has all rights that are needed; {took}")
    })
}

/// What its settings mean for conversations.
fn of_settings(settings: &HashMap<String, String>) -> Vec<Finding> {
    let setting = |name: &str| settings.get(name).map(String::as_str);
    let mut findings = Vec::new();
    findings.push(Note(match (setting("appendonly"), setting("appendfsync")) {
        (Some("yes"), Some("always")) => {
            "it writes each change to disk (`appendfsync always`): a crash loses nothing".to_owned()
        }
        (Some("yes"), Some("no")) => "the operating system decides when changes reach the disk (`appendfsync no`): a \
                                      crash of the machine can lose the last half minute; `appendfsync \
                                      everysec` loses a second or two"
            .to_owned(),
        (Some("yes"), _) => "it writes changes to disk each second (`appendonly yes`): a crash of the \
                             server can lose the last one; `appendfsync always` loses nothing"
            .to_owned(),
        (Some(_), _) => "it does not write changes to disk: a crash of the server loses all since \
                         its last snapshot (`save`), if it takes any; set `appendonly yes` there"
            .to_owned(),
        (None, _) => {
            "it does not tell this user how it writes to disk (`CONFIG GET`): look for `appendonly yes` there"
                .to_owned()
        }
    }));
    let policy = setting("maxmemory-policy");
    let has_maximum = setting("maxmemory").is_none_or(|bytes| bytes != "0");
    match policy {
        Some(policy) if policy != "noeviction" && has_maximum => findings.push(Warning(format!(
            "with `maxmemory-policy {policy}`, it drops conversations when its memory is full, also in the \
             middle of a turn; set `noeviction` there: then new turns are refused instead"
        ))),
        _ => {}
    }
    let replicas = setting("connected_slaves").and_then(|count| count.parse::<u32>().ok());
    let required = setting("min-replicas-to-write");
    if let Some(replicas) = replicas.filter(|count| *count > 0)
        && required == Some("0")
    {
        findings.push(Note(format!(
            "it has {replicas} replicas, but confirms writes that none of them has: a failover can lose the \
             last ones; `min-replicas-to-write 1` there limits that"
        )));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(settings: &[(&str, &str)]) -> Vec<Finding> {
        let settings = settings.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        of_settings(&settings.collect())
    }

    #[test]
    fn the_advice_depends_on_the_settings() {
        let whole =
            [("appendonly", "yes"), ("appendfsync", "always"), ("maxmemory-policy", "noeviction")];
        let [Note(advice)] = &findings(&whole)[..] else { panic!("one note") };
        assert!(advice.contains("loses nothing"), "{advice}");
        for (settings, expected) in [
            (
                &[("appendonly", "yes"), ("appendfsync", "everysec")][..],
                "`appendfsync always` loses nothing",
            ),
            (&[("appendonly", "yes"), ("appendfsync", "no")], "can lose the last half minute"),
            (&[("appendonly", "no")], "set `appendonly yes`"),
            (&[], "it does not tell this user"),
            (&[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "7")], "set `noeviction` there"),
            (&[("connected_slaves", "2"), ("min-replicas-to-write", "0")], "it has 2 replicas"),
        ] {
            let (Note(advice) | Warning(advice) | Fault(advice)) =
                findings(settings).pop().unwrap();
            assert!(advice.contains(expected), "{advice}");
        }
        assert_eq!(findings(&[("maxmemory-policy", "allkeys-lru"), ("maxmemory", "0")]).len(), 1);
        assert_eq!(findings(&[("connected_slaves", "2"), ("min-replicas-to-write", "1")]).len(), 1);
    }
}
