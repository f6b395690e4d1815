//! Measures participants side by side: each one's runs take turns with the floor's.

use std::hint::black_box;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::alloc;
use crate::floors::{Nesting, scan_and_copy};
use crate::output::{Output, RIGHT};
use crate::stream::{Markup, Stream, Work};

/// A participant's runs end at this many, or once they have taken this long together.
const RUNS_MAX: usize = 200;
const TIME_MAX: Duration = Duration::from_secs(1);
/// But not before this many.
const RUNS_MIN: usize = 3;
/// Longer runs are not repeated: the first one counts.
const LONG: Duration = Duration::from_secs(2);

/// A parser that is ready to read one stream.
pub(crate) trait Run {
    /// Reads the chunks, one call of the parser for each, and says what it found.
    fn run(self: Box<Self>, chunks: &[&str], output: &mut Output);
}

/// Makes a parser ready, which takes no part in the time.
pub(crate) type Setup = fn(&Stream) -> Box<dyn Run>;

pub(crate) struct Participant {
    pub(crate) name: &'static str,
    pub(crate) markup: Markup,
    pub(crate) set_up: Setup,
    /// Whether it is measured on text without calls.
    pub(crate) reads_text: bool,
}

impl Participant {
    /// Leaves out texts without calls.
    pub(crate) const fn of_calls(mut self) -> Self {
        self.reads_text = false;
        self
    }

    pub(crate) fn reads(&self, work: &Work) -> bool {
        work.has_calls || self.reads_text
    }
}

/// What was measured of a participant on one stream.
#[derive(Debug)]
pub(crate) struct Row {
    pub(crate) participant: &'static str,
    pub(crate) work: &'static str,
    pub(crate) bytes: usize,
    pub(crate) chunks: usize,
    /// Fewer than `chunks` if it was stopped.
    pub(crate) fed: usize,
    pub(crate) runs: usize,
    /// Nanoseconds for each chunk: its fastest run, and the median.
    pub(crate) best_ns: f64,
    pub(crate) median_ns: f64,
    /// Of the floor in between.
    pub(crate) floor_ns: f64,
    pub(crate) allocations: u64,
    /// The most chunks that went in one after the other while nothing came out.
    pub(crate) silence: usize,
    pub(crate) verdict: String,
}

impl Row {
    pub(crate) fn ratio(&self) -> f64 {
        self.best_ns / self.floor_ns
    }

    pub(crate) fn is_right(&self) -> bool {
        self.verdict == RIGHT
    }

    pub(crate) const fn is_cut(&self) -> bool {
        self.fed < self.chunks
    }
}

pub(crate) fn measure(work: &Work, participants: &[&Participant], cap: Duration) -> Vec<Row> {
    participants.iter().map(|participant| measure_one(work, participant, cap)).collect()
}

fn measure_one(work: &Work, participant: &Participant, cap: Duration) -> Row {
    let stream = work.stream(participant.markup);
    let chunks = stream.chunks();
    let mut output = Output::with_room(stream.len());

    output.begin(true, cap);
    (participant.set_up)(&stream).run(&chunks, &mut output);
    let (fed, silence) = (output.fed.min(chunks.len()), output.silence);
    let verdict = match &output.error {
        None if fed < chunks.len() => format!("stopped after {} s", cap.as_secs()),
        _ => output.verdict(&stream),
    };

    let run = (participant.set_up)(&stream);
    output.begin(false, cap);
    let begun = ran();
    let allocations = alloc::count(|| run.run(&chunks, &mut output));
    let first = ran().saturating_sub(begun);

    let (mut times, mut floors) = (Vec::new(), Vec::new());
    let mut spent = Duration::ZERO;
    while times.len() < RUNS_MIN || (times.len() < RUNS_MAX && spent < TIME_MAX) {
        floors.push(floor(work, &chunks, &mut output));
        let time = if first > LONG {
            first
        } else {
            let run = (participant.set_up)(&stream);
            output.begin(false, cap);
            let begun = ran();
            run.run(&chunks, &mut output);
            ran().saturating_sub(begun)
        };
        spent += time;
        times.push(time);
    }
    times.sort();
    let per_chunk = |time: Duration, chunks: usize| time.as_secs_f64() * 1e9 / chunks.max(1) as f64;
    Row {
        participant: participant.name,
        work: work.name,
        bytes: stream.len(),
        chunks: chunks.len(),
        fed,
        runs: times.len(),
        best_ns: per_chunk(times[0], fed),
        median_ns: per_chunk(times[times.len() / 2], fed),
        floor_ns: per_chunk(floors.into_iter().min().unwrap_or_default(), chunks.len()),
        allocations,
        silence,
        verdict,
    }
}

/// The least that the stream's chunks cost: one search and a copy, or a loop that follows brackets and
/// strings, and a copy.
fn floor(work: &Work, chunks: &[&str], output: &mut Output) -> Duration {
    let out = &mut output.text;
    out.clear();
    let begun = ran();
    if work.has_calls {
        let mut nesting = Nesting::default();
        for chunk in chunks {
            black_box(nesting.follow_and_copy(black_box(chunk), out));
        }
    } else {
        for chunk in chunks {
            black_box(scan_and_copy(black_box(chunk), out));
        }
    }
    ran().saturating_sub(begun)
}

/// How long this thread has run on a processor.
fn ran() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}
