//! `tether sessions export`.

use std::io::Write;

use super::{Failures, NoSuch, page};
use crate::cli::{CliError, print_diagnostic};
use crate::session::exported;
use crate::session::store::Store;

/// Writes the sessions with these ids, or all, a line each. One is in memory at a time.
///
/// # Errors
/// [`CliError::Silent`] if some could not be exported; otherwise if the store or `out` fails.
pub(super) async fn run(
    store: &dyn Store,
    ids: &[String],
    out: &mut impl Write,
) -> Result<(), CliError> {
    let mut failures = Failures::default();
    for id in ids {
        export(store, id, out, &mut failures).await?;
    }
    if ids.is_empty() {
        let (mut after, mut count) = (None, 0);
        loop {
            let ids: Vec<String> = page(store, after.as_deref())
                .await?
                .into_iter()
                .map(|session| session.id)
                .collect();
            for id in &ids {
                export(store, id, out, &mut failures).await?;
            }
            count += ids.len();
            let Some(last) = ids.into_iter().next_back() else { break };
            after = Some(last);
        }
        if count == 0 {
            print_diagnostic("note", "there are no sessions");
        }
    }
    out.flush()?;
    failures.end()
}

async fn export(
    store: &dyn Store,
    id: &str,
    out: &mut impl Write,
    failures: &mut Failures,
) -> Result<(), CliError> {
    match store.copy(id).await {
        Ok(Some(copy)) => match exported::write(&copy) {
            Ok(line) => out.write_all(&line)?,
            Err(error) => failures.report(error),
        },
        Ok(None) => failures.report(NoSuch(id)),
        Err(error) => failures.report(format_args!("{id}: {error}")),
    }
    Ok(())
}
