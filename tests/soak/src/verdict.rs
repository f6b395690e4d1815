//! The promises, and what is shown of each phase.

use std::time::Duration;

use crate::model::Rounds;
use crate::phase::Measured;
use crate::report::{Report, mib, none, times};
use crate::tally::Tally;
use crate::watcher::{Sample, Watched};

/// Idle connections to the model that a gateway keeps for a while.
const IDLE_FILES: u64 = 64;
/// Other files that come and go, such as the connection that asks for `/metrics`.
const OTHER_FILES: u64 = 8;
/// What allocators may keep besides, and what a load that is over has warmed up.
const GROWTH_BYTES: u64 = 8 * 1024 * 1024;
/// The gateway may take as many percent more than it counts.
const KEPT_PERCENT: u64 = 125;

/// A load that the gateway can carry.
pub(crate) fn soak(report: &mut Report, measured: &Measured, is_short: bool) {
    let tally = &measured.world.tally;
    figures(report, tally);
    report.row(
        "readers that stopped",
        format!(
            "{} times; cut by the gateway {}, left for good {}",
            tally.stalls.value(),
            tally.cut_stalled.value(),
            tally.abandoned.value()
        ),
    );
    report.row("slow senders", format!("{} connections", tally.loris.value()));
    resources(report, measured);

    whole(report, "", measured);
    let refused = none(tally.refused.value(), "requests were refused");
    report.promise("there is room for all", refused);
    let kept = none(tally.loris_kept.value(), "were kept for too long");
    report.promise("slow senders are closed in time", kept);
    flat(report, measured);
    back(report, measured);
    answers(report, measured, is_short);
}

/// What the gateway asked of the model. Turns that were left are cancelled after a while.
pub(crate) fn rounds(report: &mut Report, measured: &Measured, rounds: Rounds) {
    let Rounds { begun, cancelled, open, most } = rounds;
    report.row(
        "rounds of the model",
        format!("{begun}, {most} at the same time, {cancelled} cancelled"),
    );
    let left = measured.world.tally.abandoned.value();
    let wrong = cancelled.saturating_sub(left);
    let objection = none(open, "go on").or_else(|| none(wrong, "were cancelled for no reason"));
    report.promise("rounds of the model end with their turns", objection);
}

/// Twice as many clients as there is room for.
pub(crate) fn overload(report: &mut Report, measured: &Measured, room: u64, rounds: Rounds) {
    let tally = &measured.world.tally;
    report.row("overload", format!("{} clients, room for {room}", measured.world.load.clients));
    figures(report, tally);
    report.row("refused", format!("{} requests", tally.refused.value()));
    report.row("time to a refusal", times(&tally.refusal.snapshot()));
    answer_times(report, measured);

    whole(report, "under overload, ", measured);
    let (begun, most) = (tally.begun.value(), rounds.most);
    let objection = format!("{begun} turns ran, {most} of them at the same time");
    report.promise(
        &format!("there is room for {room} turns and no more"),
        (begun < room || most > room).then_some(objection),
    );
    let without = none(tally.refused_without_time.value(), "refusals had no Retry-After");
    let nobody = (tally.refused.value() == 0).then(|| "nobody was refused".to_owned());
    report.promise("the others are refused, and told when to come again", without.or(nobody));
}

fn figures(report: &mut Report, tally: &Tally) {
    report.row(
        "turns",
        format!("{} completed, {} tool calls", tally.completed.value(), tally.tools.value()),
    );
    report.row("tokens", tally.tokens.value().to_string());
    report.row("token lag, p50 / p99 / max", times(&tally.lag.snapshot()));
    report.row("  the clients' own delay", times(&tally.own_delay.snapshot()));
    report.row("first event", times(&tally.first_event.snapshot()));
    report.row("streams cut and re-joined", tally.cuts.value().to_string());
}

fn answer_times(report: &mut Report, measured: &Measured) {
    let Watched { healthz, metrics, late, late_samples, .. } = &measured.watched;
    report.row("/healthz", times(healthz));
    report.row("/metrics", times(metrics));
    if let Some((first, last)) = late_samples {
        let when = format!("{late}, from {first} s to {last} s");
        report.row("  answers after more than 100 ms", when);
    }
}

fn resources(report: &mut Report, measured: &Measured) {
    answer_times(report, measured);
    let Measured { before, after, watched, seconds, .. } = measured;
    let load = &watched.samples[..*seconds];
    let most = |of: fn(&Sample) -> u64| load.iter().map(of).max().unwrap_or(0);
    let cores = |ticks: u64| {
        let percent = ticks / u64::try_from(*seconds).unwrap_or(1).max(1);
        format!("{}.{:02}", percent / 100, percent % 100)
    };
    // A sample is empty if this program could not open a file.
    let cpu_ticks = most(|sample| sample.cpu_ticks).saturating_sub(before.cpu_ticks);
    report.row(
        "cores: gateway; clients and model",
        format!("{}; {}", cores(cpu_ticks), cores(measured.own_cpu_ticks)),
    );
    let resident = |sample: &Sample| mib(sample.usage.resident_bytes);
    report.row(
        "memory, MiB: before, most, after",
        format!(
            "{}, {}, {} (of which it counts {} as kept)",
            resident(before),
            mib(most(|sample| sample.usage.resident_bytes)),
            resident(after),
            mib(after.kept_bytes)
        ),
    );
    let anonymous = |sample: &Sample| mib(sample.usage.anonymous_bytes);
    report.row(
        "  without the program itself",
        format!(
            "{}, {}, {}",
            anonymous(before),
            mib(most(|sample| sample.usage.anonymous_bytes)),
            anonymous(after)
        ),
    );
    let rest = watched.samples[*seconds..].iter().step_by(10).map(anonymous);
    report.row("  every ten seconds after it", rest.collect::<Vec<_>>().join(", "));
    let fifths =
        (0..5).map(|index| mib(mean(measured.fifth(index), |it| it.usage.anonymous_bytes)));
    report.row("  in each fifth of the load", fifths.collect::<Vec<_>>().join(", "));
    report.row(
        "open files: before, most, after",
        format!(
            "{}, {}, {}",
            before.usage.files,
            most(|sample| sample.usage.files),
            after.usage.files
        ),
    );
    report.row(
        "threads: before, most, after",
        format!(
            "{}, {}, {}",
            before.usage.threads,
            most(|sample| sample.usage.threads),
            after.usage.threads
        ),
    );
}

fn mean(samples: &[Sample], of: fn(&Sample) -> u64) -> u64 {
    samples.iter().map(of).sum::<u64>() / (samples.len() as u64).max(1)
}

/// Nothing is lost, doubled, or ends in another way than it should.
fn whole(report: &mut Report, when: &str, measured: &Measured) {
    let tally = &measured.world.tally;
    let counts = [
        (tally.lost.value(), "tokens are missing"),
        (tally.doubled.value(), "tokens came twice"),
        (tally.misnumbered.value(), "events have a wrong number"),
        (tally.tools_missing.value(), "tool calls are missing, or too many"),
    ];
    let objection = any(&counts);
    report.promise(&format!("{when}nothing is lost or doubled"), objection);

    let begun = tally.begun.value();
    let ended = tally.completed.value()
        + tally.abandoned.value()
        + tally.cancelled.value()
        + tally.failed.value()
        + tally.hung.value();
    let counts = [
        (tally.failed.value(), "turns failed"),
        (tally.cancelled.value(), "turns were cancelled, for their clients came back late"),
        (tally.hung.value(), "streams fell silent"),
        (tally.cut_others.value(), "streams were cut by the gateway"),
        (tally.strange.value(), "requests got a strange answer"),
        (tally.unconnected.value(), "connections could not be made"),
        (measured.unfinished as u64, "clients did not come to an end"),
        (begun.abs_diff(ended), "turns have no end"),
    ];
    let objection = any(&counts);
    let sample = tally.sample().map_or_else(String::new, |sample| format!(", such as {sample:?}"));
    report
        .promise(&format!("{when}every turn ends as it should"), objection.map(|it| it + &sample));
}

/// All of these that should not be there.
fn any(counts: &[(u64, &str)]) -> Option<String> {
    let found = counts.iter().filter_map(|(count, what)| none(*count, what));
    let found = found.collect::<Vec<_>>().join(", ");
    (!found.is_empty()).then_some(found)
}

/// Memory does not grow while the load stays the same.
fn flat(report: &mut Report, measured: &Measured) {
    let uncounted = |index| {
        let of = |sample: &Sample| sample.usage.anonymous_bytes.saturating_sub(sample.kept_bytes);
        mean(measured.fifth(index), of)
    };
    let (early, late) = (uncounted(2), uncounted(4));
    let grows = late > early + early / 10 + GROWTH_BYTES;
    let objection = format!("from {} to {} MiB, besides what it counts", mib(early), mib(late));
    report.promise("memory stays flat", grows.then_some(objection));
}

/// What the load took is given back.
fn back(report: &mut Report, measured: &Measured) {
    let Measured { before, after, .. } = measured;
    let files = before.usage.files + IDLE_FILES + OTHER_FILES;
    let objection = format!("{} are open", after.usage.files);
    report.promise(
        &format!("at most {files} files stay open"),
        (after.usage.files > files).then_some(objection),
    );
    let bytes = before.usage.resident_bytes * 3 / 2 + after.kept_bytes * KEPT_PERCENT / 100;
    let objection = format!("{} MiB are resident", mib(after.usage.resident_bytes));
    report.promise(
        &format!("30 s later, at most {} MiB of memory are left", mib(bytes)),
        (after.usage.resident_bytes > bytes).then_some(objection),
    );
}

fn answers(report: &mut Report, measured: &Measured, is_short: bool) {
    let watched = &measured.watched;
    let unanswered = none(watched.unanswered, "requests got no good answer");
    report.promise("/healthz and /metrics answer", unanswered);
    // On a machine that others use, this would fail once in a while.
    if !is_short {
        let objection = none(watched.late, "took longer");
        report.promise("they answer within 100 ms", objection);
    }
}

/// How long the gateway may take to give memory back.
pub(crate) const REST: Duration = Duration::from_secs(30);
