//! The program's output: progress, a JSON line per task, the table.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;
use std::process::ExitCode;

use serde_json::json;

use crate::Error;
use crate::play::Outcome;
use crate::table::Table;
use crate::tasks::Task;

#[derive(Debug)]
pub(crate) struct Report {
    table: Table,
    lines: Option<BufWriter<File>>,
    tasks: usize,
    done: usize,
    /// The tasks that could not be played, and why.
    faults: Vec<String>,
    /// How many tasks fail with `--fail-on-shown`.
    failed: usize,
}

impl Report {
    /// A report on `tasks` tasks, with JSON lines written to a file if one is given.
    pub(crate) fn new(jsonl: Option<&Path>, tasks: usize) -> Result<Self, Error> {
        let create = |path: &Path| {
            File::create(path).map_err(|error| format!("cannot write {}: {error}", path.display()))
        };
        let lines = jsonl.map(create).transpose()?.map(BufWriter::new);
        let table = Table::default();
        Ok(Self { table, lines, tasks, done: 0, faults: Vec::new(), failed: 0 })
    }

    /// Notes the outcome of a task.
    #[expect(clippy::print_stderr, reason = "progress for someone who waits for hours")]
    pub(crate) fn note(&mut self, task: &Task, outcome: Outcome) -> Result<(), Error> {
        self.done += 1;
        self.table.add(task, &outcome);
        let words = words(&outcome);
        let (done, tasks, title, seconds) =
            (self.done, self.tasks, task.set.title(), outcome.seconds);
        eprintln!("[{done}/{tasks}] {title}, {}: {words}, {seconds:.1} s", task.id);
        let is_shown = outcome.verdict.echoed || outcome.verdict.invented;
        self.failed += usize::from(is_shown || outcome.fault.is_some());
        if let Some(lines) = &mut self.lines {
            let line = json!({
                "set": task.set, "id": task.id, "kind": task.kind, "half": task.half,
                "prompt": task.prompt, "outcome": outcome,
            });
            writeln!(lines, "{line}")?;
            // A run takes hours, and people read the file in the meantime.
            lines.flush()?;
        }
        self.faults.extend(outcome.fault.map(|fault| format!("{}: {fault}", task.id)));
        Ok(())
    }

    /// Prints the table and returns the exit status.
    #[expect(clippy::print_stdout, reason = "the table is the program's output")]
    pub(crate) fn finish(self, fail_on_shown: bool) -> ExitCode {
        println!("{}", self.table);
        if !self.faults.is_empty() {
            println!("Not played to the end, and counted as failed:");
            for fault in &self.faults {
                println!("- {fault}");
            }
            println!();
        }
        if !fail_on_shown {
            return ExitCode::SUCCESS;
        }
        println!("{} passed, {} failed", self.done - self.failed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }
}

/// The verdict in words.
fn words(outcome: &Outcome) -> String {
    let verdict = &outcome.verdict;
    let words = [
        (verdict.right == Some(true), "right call"),
        (verdict.right == Some(false), "no right call"),
        (verdict.valid == Some(false), "invalid"),
        (verdict.false_call == Some(true), "false call"),
        (verdict.answered == Some(true), "answered"),
        (verdict.answered == Some(false), "not answered"),
        (verdict.repeated > 0, "repeats itself"),
        (verdict.echoed, "ECHOED"),
        (verdict.invented, "INVENTED"),
        (outcome.fault.is_some(), "FAULT"),
    ];
    let words: Vec<&str> =
        words.iter().filter(|(is_so, _)| *is_so).map(|(_, word)| *word).collect();
    words.join(", ")
}
