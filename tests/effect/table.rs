//! The table: one row per set and half.

use std::fmt;

use crate::play::Outcome;
use crate::tasks::{Half, Set, Task};

/// All rows, including those without tasks.
#[derive(Debug, Default)]
pub(crate) struct Table([[Row; Half::ALL.len()]; Set::ALL.len()]);

/// The totals of one row.
#[derive(Debug, Default)]
struct Row {
    tasks: u32,
    right: Share,
    valid: Share,
    answered: Share,
    composed: u32,
    false_calls: Share,
    rounds: u64,
    tokens: u64,
    repeated: usize,
    echoed: u32,
    invented: u32,
    seconds: f64,
}

/// How many of the tasks that were asked this question.
#[derive(Debug, Default)]
struct Share {
    yes: u32,
    asked: u32,
}

impl Table {
    pub(crate) fn add(&mut self, task: &Task, outcome: &Outcome) {
        let row = &mut self.0[task.set as usize][task.half as usize];
        let verdict = &outcome.verdict;
        row.tasks += 1;
        row.right.add(verdict.right);
        row.valid.add(verdict.valid);
        row.answered.add(verdict.answered);
        row.composed += u32::from(verdict.composed == Some(true));
        row.false_calls.add(verdict.false_call);
        for end in outcome.turns.iter().filter_map(|turn| turn.end.as_ref()) {
            row.rounds += end.rounds;
            row.tokens += end.prompt_tokens + end.completion_tokens;
        }
        row.repeated += verdict.repeated;
        row.echoed += u32::from(verdict.echoed);
        row.invented += u32::from(verdict.invented);
        row.seconds += outcome.seconds;
    }
}

impl Share {
    fn add(&mut self, answer: Option<bool>) {
        self.asked += u32::from(answer.is_some());
        self.yes += u32::from(answer == Some(true));
    }
}

impl fmt::Display for Share {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.asked {
            0 => f.write_str("-"),
            asked => {
                let percent = f64::from(self.yes) * 100.0 / f64::from(asked);
                write!(f, "{} ({percent:.0} %)", self.yes)
            }
        }
    }
}

const HEAD: &str = "\
| set | half | tasks | right call | valid | answered | composed | false calls | rounds | tokens | repeated calls | echoed | invented | seconds |
| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |";

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for (set, halves) in Set::ALL.into_iter().zip(&self.0) {
            for (half, row) in Half::ALL.into_iter().zip(halves) {
                if row.tasks > 0 {
                    writeln!(f, "| {} | {} | {row} |", set.title(), half.name())?;
                }
            }
        }
        Ok(())
    }
}

impl fmt::Display for Row {
    #[expect(clippy::cast_precision_loss, reason = "counts of tokens are far below 2^52")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { tasks, right, valid, answered, composed, false_calls, .. } = self;
        let Self { echoed, invented, .. } = self;
        let mean = |sum: f64| sum / f64::from(*tasks);
        let (rounds, tokens) = (mean(self.rounds as f64), mean(self.tokens as f64));
        let (repeated, seconds) = (mean(self.repeated as f64), mean(self.seconds));
        write!(
            f,
            "{tasks} | {right} | {valid} | {answered} | {composed} | {false_calls} | {rounds:.2} \
             | {tokens:.0} | {repeated:.2} | {echoed} | {invented} | {seconds:.1}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_shares_and_means() {
        let mut row = Row { tasks: 3, rounds: 7, tokens: 1000, repeated: 1, ..Row::default() };
        row.right = Share { yes: 2, asked: 3 };
        row.seconds = 4.0;
        assert_eq!(
            row.to_string(),
            "3 | 2 (67 %) | - | - | 0 | - | 2.33 | 333 | 0.33 | 0 | 0 | 1.3"
        );
        let columns = |line: &str| line.split(" | ").count();
        assert_eq!(columns(&row.to_string()) + 2, columns(HEAD.lines().next().unwrap()));
    }
}
