//! How `/metrics` counts what is measured: in buckets with fixed bounds, so that several gateways, and any length of
//! time, can be added up. Summaries cannot, and those of the exporter misjudge small values as soon as a large one is
//! among them.

use metrics_exporter_prometheus::{BuildError, Matcher, PrometheusBuilder};

/// Seconds, from what a store in memory takes to what a patient user waits. The thresholds of the alert rules in
/// `examples/grafana` are bounds: between two bounds, quantiles are guesses.
const SECONDS: &[f64] = &[
    0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0,
    40.0, 80.0, 160.0, 320.0, 640.0,
];

/// Tokens, up to the context of a large model.
const TOKENS: &[f64] = &[
    0.0, 50.0, 100.0, 250.0, 500.0, 1000.0, 2500.0, 5000.0, 10_000.0, 25_000.0, 50_000.0, 100_000.0,
];

/// How many there were of anything else.
const COUNTS: &[f64] = &[0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];

/// Builds recorders whose histograms have these buckets. A metric's unit, at the end of its name, decides which.
///
/// # Errors
/// If a list of bounds is empty.
pub(crate) fn builder() -> Result<PrometheusBuilder, BuildError> {
    let of_unit = |unit: &str| Matcher::Suffix(unit.to_owned());
    PrometheusBuilder::new()
        .set_buckets(COUNTS)?
        .set_buckets_for_metric(of_unit("_tokens"), TOKENS)?
        .set_buckets_for_metric(of_unit("_seconds"), SECONDS)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ::metrics::with_local_recorder;

    use super::*;
    use crate::telemetry::metrics;

    /// Checks that `/metrics` has each of these lines after `record`.
    #[track_caller]
    fn check(record: impl FnOnce(), expected: &[&str]) {
        let recorder = builder().unwrap().build_recorder();
        with_local_recorder(&recorder, record);
        let text = recorder.handle().render();
        for line in expected {
            assert!(text.lines().any(|it| it == *line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn one_slow_value_changes_nothing_about_the_others() {
        let record = || {
            for seconds in [0.0075, 0.0075, 12.0] {
                metrics::tool_hidden(Duration::from_secs_f64(seconds));
            }
        };
        check(
            record,
            &[
                "# TYPE tether_tool_hidden_seconds histogram",
                "tether_tool_hidden_seconds_bucket{le=\"0.005\"} 0",
                "tether_tool_hidden_seconds_bucket{le=\"0.01\"} 2",
                "tether_tool_hidden_seconds_bucket{le=\"10\"} 2",
                "tether_tool_hidden_seconds_bucket{le=\"20\"} 3",
                "tether_tool_hidden_seconds_bucket{le=\"+Inf\"} 3",
            ],
        );
    }

    #[test]
    fn tokens_and_counts_have_buckets_of_their_own() {
        let record = || {
            ::metrics::histogram!("tether_tools_told").record(5.0);
            ::metrics::histogram!("tether_tools_told_tokens").record(700.0);
        };
        check(
            record,
            &[
                "tether_tools_told_bucket{le=\"4\"} 0",
                "tether_tools_told_bucket{le=\"8\"} 1",
                "tether_tools_told_tokens_bucket{le=\"500\"} 0",
                "tether_tools_told_tokens_bucket{le=\"1000\"} 1",
            ],
        );
    }
}
