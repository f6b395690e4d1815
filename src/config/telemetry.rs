//! `telemetry`: where traces and metrics are sent.

use std::time::Duration;

use hyper::Uri;
use serde::{Serialize, Serializer};

use super::raw::Value;
use super::reader::{Keys, decimal, wait};
use super::upstream::COLLECTOR;
use super::values::{headers, name, server_url};
use super::{Secret, seconds};
use crate::limits::config as bounds;
use crate::limits::telemetry as defaults;

/// `telemetry`: where traces and metrics are sent.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TelemetryConfig {
    /// An OpenTelemetry collector.
    pub otlp: OtlpConfig,
}

/// `telemetry.otlp`: an OpenTelemetry collector, which gets OTLP over HTTP in JSON.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct OtlpConfig {
    /// Its address; without it, nothing is recorded.
    #[serde(serialize_with = "address")]
    pub endpoint: Option<Uri>,
    /// Headers of each request.
    #[serde(serialize_with = "as_map")]
    pub headers: Vec<(String, Secret)>,
    /// The gateway's name there.
    pub service_name: String,
    /// The ratio of traces to record, of those that begin here: 0 to 1.
    pub sample_ratio: f64,
    /// How often metrics are sent.
    #[serde(rename = "metrics_interval_sec", serialize_with = "seconds")]
    pub metrics_interval: Duration,
}

impl Default for OtlpConfig {
    fn default() -> Self {
        Self {
            endpoint: None,
            headers: Vec::new(),
            service_name: "tether".to_owned(),
            sample_ratio: 1.0,
            metrics_interval: defaults::METRICS_INTERVAL,
        }
    }
}

/// Reads `telemetry`.
pub(super) fn read(mut keys: Keys<'_, '_>) -> TelemetryConfig {
    let otlp = otlp(keys.section("otlp"));
    keys.finish();
    TelemetryConfig { otlp }
}

fn otlp(mut keys: Keys<'_, '_>) -> OtlpConfig {
    let default = OtlpConfig::default();
    let otlp = OtlpConfig {
        endpoint: keys.read("endpoint", default.endpoint, |node| match node.value {
            Value::Null => Ok(None),
            _ => server_url(&COLLECTOR)(node).map(Some),
        }),
        headers: headers(&mut keys),
        service_name: keys.read("service_name", default.service_name, name),
        sample_ratio: keys.read("sample_ratio", default.sample_ratio, decimal(0.0..=1.0)),
        metrics_interval: keys.read(
            "metrics_interval_sec",
            default.metrics_interval,
            wait(bounds::WAIT_MIN..=bounds::WAIT_MAX),
        ),
    };
    keys.finish();
    otlp
}

#[expect(clippy::ref_option, reason = "serde passes a reference to the field")]
fn address<S: Serializer>(endpoint: &Option<Uri>, serializer: S) -> Result<S::Ok, S::Error> {
    match endpoint {
        Some(endpoint) => serializer.collect_str(endpoint),
        None => serializer.serialize_none(),
    }
}

fn as_map<S: Serializer>(pairs: &[(String, Secret)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(pairs.iter().map(|(name, value)| (name, value)))
}
