//! `tether sessions list`.

use std::cmp::Reverse;
use std::io::{self, Write};

use serde::Serialize;

use super::page;
use super::show::time;
use crate::cli::{CliError, print_diagnostic};
use crate::session::store::{ListedSession, Store};
use crate::session::{self, Snapshot};

/// A session as it is listed.
#[derive(Serialize)]
struct Row {
    id: String,
    owner: Option<String>,
    used_at_ms: u64,
    /// `None` if its record cannot be read.
    turns: Option<u64>,
    bytes: u64,
}

/// Writes the sessions, the one last used first.
///
/// # Errors
/// If the store or `out` fails.
pub(super) async fn run(
    store: &dyn Store,
    as_json: bool,
    out: &mut impl Write,
) -> Result<(), CliError> {
    let mut rows: Vec<Row> = Vec::new();
    loop {
        let after = rows.last().map(|row| &*row.id);
        let page = page(store, after).await?;
        if page.is_empty() {
            break;
        }
        rows.extend(page.into_iter().map(Row::of));
    }
    if rows.is_empty() {
        print_diagnostic("note", "there are no sessions");
    }
    for row in rows.iter().filter(|row| row.turns.is_none()) {
        print_diagnostic(
            "note",
            format_args!("{} cannot be read; `tether sessions forget` deletes it", row.id),
        );
    }
    rows.sort_by_key(|row| Reverse(row.used_at_ms));
    if as_json {
        for row in &rows {
            serde_json::to_writer(&mut *out, row).map_err(io::Error::from)?;
            out.write_all(b"\n")?;
        }
    } else if !rows.is_empty() {
        writeln!(out, "{:<20}  {:>6}  {:>12}  ID", "LAST USED", "TURNS", "BYTES")?;
        for Row { id, used_at_ms, turns, bytes, .. } in &rows {
            let turns = turns.map_or_else(|| "?".to_owned(), |turns| turns.to_string());
            writeln!(out, "{}  {turns:>6}  {bytes:>12}  {id}", time(*used_at_ms))?;
        }
    }
    Ok(out.flush()?)
}

impl Row {
    fn of(listed: ListedSession) -> Self {
        let ListedSession { id, used_at_ms, bytes, record } = listed;
        let conversation = Snapshot::of_record(&record).map(|snapshot| snapshot.conversation);
        let turns = conversation.map(|it| it.dropped() + it.turns().len() as u64).ok();
        let (_, owner) = session::name_and_owner(&id);
        let owner = (!owner.is_empty()).then(|| owner.to_owned());
        Self { id, owner, used_at_ms, turns, bytes }
    }
}
