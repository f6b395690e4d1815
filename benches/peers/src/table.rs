//! The tables, and the same as JSON.

use serde_json::json;

use crate::Error;
use crate::measure::Row;
use crate::stream::Work;

/// What was measured on one stream.
pub(crate) fn print_rows(work: &Work, rows: &[Row]) {
    println!("\n## {}\n", work.name);
    println!(
        "| parser | ns per chunk | the floor's | times the floor | allocations per chunk | longest silence | result |"
    );
    println!("| --- | ---: | ---: | ---: | ---: | ---: | --- |");
    for row in rows {
        println!(
            "| {} | {:.1} | {:.1} | {} | {:.2} | {} | {} |",
            row.participant,
            row.best_ns,
            row.floor_ns,
            ratio(row),
            per_chunk(row.allocations, row.fed),
            row.silence,
            row.verdict,
        );
    }
}

/// Times the floor: a line for each participant, a column for each stream.
pub(crate) fn print_summary(rows: &[Row]) {
    let mut works: Vec<_> = rows.iter().map(|row| row.work).collect();
    works.dedup();
    let mut participants: Vec<&str> = Vec::new();
    for row in rows {
        if !participants.contains(&row.participant) {
            participants.push(row.participant);
        }
    }
    println!("\n## Times the floor\n");
    println!("| parser | {} |", works.join(" | "));
    println!("| --- |{}", " ---: |".repeat(works.len()));
    for participant in participants {
        let cells = works.iter().map(|work| {
            rows.iter()
                .find(|row| row.participant == participant && row.work == *work)
                .map_or_else(|| "–".to_owned(), cell)
        });
        println!("| {participant} | {} |", cells.collect::<Vec<_>>().join(" | "));
    }
}

fn cell(row: &Row) -> String {
    if row.is_right() || row.is_cut() { ratio(row) } else { format!("{} (wrong)", ratio(row)) }
}

/// A run that was stopped costs at least this much, since the rest of its stream costs more.
fn ratio(row: &Row) -> String {
    let ratio = row.ratio();
    let sign = if row.is_cut() { "> " } else { "" };
    if ratio < 10.0 { format!("{sign}{ratio:.2}") } else { format!("{sign}{ratio:.0}") }
}

fn per_chunk(count: u64, chunks: usize) -> f64 {
    count as f64 / chunks.max(1) as f64
}

pub(crate) fn json(rows: &[Row]) -> Result<String, Error> {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            json!({
                "parser": row.participant,
                "stream": row.work,
                "bytes": row.bytes,
                "chunks": row.chunks,
                "chunks_read": row.fed,
                "runs": row.runs,
                "best_ns_per_chunk": row.best_ns,
                "median_ns_per_chunk": row.median_ns,
                "floor_ns_per_chunk": row.floor_ns,
                "times_floor": row.ratio(),
                "allocations": row.allocations,
                "longest_silence_chunks": row.silence,
                "result": row.verdict,
            })
        })
        .collect();
    Ok(serde_json::to_string_pretty(&rows)?)
}
