//! Encodes spans and histograms as OTLP/JSON: the Protobuf JSON mapping, but with ids in hexadecimal.

use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::{Value as Json, json};

use super::histograms::{Histogram, Histograms, Instrument};
use crate::telemetry::span_data::{Attributes, SpanData, SpanKind, Value};
use crate::version;

/// The resource that all of it belongs to: this process.
pub(super) fn resource(service: &str, instance: &str) -> Json {
    let attributes = [
        ("service.name", service),
        ("service.version", version::VERSION),
        ("service.instance.id", instance),
    ];
    json!({ "attributes": attributes.map(|(key, value)| attribute(key, &value.into())) })
}

fn scope() -> Json {
    json!({ "name": "tether", "version": version::VERSION })
}

/// The body of a request to `/v1/traces`.
pub(super) fn traces(resource: &Json, spans: &[SpanData]) -> Json {
    let spans: Vec<_> = spans.iter().map(span).collect();
    json!({ "resourceSpans": [{
        "resource": resource,
        "scopeSpans": [{ "scope": scope(), "spans": spans }],
    }] })
}

fn span(span: &SpanData) -> Json {
    let SpanData { context, parent, name, kind, begun, ended, attributes, error } = span;
    let mut json = json!({
        "traceId": format!("{:032x}", context.trace_id),
        "spanId": format!("{:016x}", context.span_id),
        "name": name,
        "kind": match kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        },
        "startTimeUnixNano": nanos(*begun),
        "endTimeUnixNano": nanos(*ended),
        "attributes": pairs(attributes),
        "flags": u32::from(context.flags),
    });
    if let Some(parent) = parent {
        json["parentSpanId"] = format!("{parent:016x}").into();
    }
    if let Some(state) = &context.state {
        json["traceState"] = (**state).into();
    }
    if let Some(error) = error {
        json["status"] = json!({ "code": 2, "message": error });
    }
    json
}

/// The body of a request to `/v1/metrics`: everything since `begun`.
pub(super) fn metrics(
    resource: &Json,
    histograms: &Histograms,
    begun: SystemTime,
    now: SystemTime,
) -> Json {
    let mut metrics: Vec<Json> = Vec::new();
    let mut last: Option<&Instrument> = None;
    for (instrument, labels, histogram) in histograms.iter() {
        if last != Some(instrument) {
            metrics.push(json!({
                "name": instrument.name,
                "unit": instrument.unit,
                "histogram": { "aggregationTemporality": 2, "dataPoints": [] },
            }));
            last = Some(instrument);
        }
        let Histogram { counts, sum, .. } = histogram;
        let labels: Vec<_> =
            labels.iter().map(|(key, value)| attribute(key, &value.as_str().into())).collect();
        let point = json!({
            "attributes": labels,
            "startTimeUnixNano": nanos(begun),
            "timeUnixNano": nanos(now),
            "count": counts.iter().sum::<u64>().to_string(),
            "sum": sum,
            "bucketCounts": counts.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "explicitBounds": instrument.buckets.bounds(),
        });
        let points = metrics.last_mut().map(|metric| &mut metric["histogram"]["dataPoints"]);
        if let Some(Json::Array(points)) = points {
            points.push(point);
        }
    }
    json!({ "resourceMetrics": [{
        "resource": resource,
        "scopeMetrics": [{ "scope": scope(), "metrics": metrics }],
    }] })
}

fn pairs(attributes: &Attributes) -> Vec<Json> {
    attributes.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &Value) -> Json {
    let value = match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Texts(texts) => {
            let values: Vec<_> = texts.iter().map(|text| json!({ "stringValue": text })).collect();
            json!({ "arrayValue": { "values": values } })
        }
        // The mapping writes 64-bit numbers as strings.
        Value::Int(number) => json!({ "intValue": number.to_string() }),
        Value::Float(number) => json!({ "doubleValue": number }),
        Value::Bool(value) => json!({ "boolValue": value }),
    };
    json!({ "key": key, "value": value })
}

fn nanos(time: SystemTime) -> String {
    time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::super::histograms::Buckets;
    use super::*;
    use crate::trace_context::TraceContext;

    fn at(nanos: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    #[test]
    fn a_span_as_the_standard_writes_it() {
        let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
        let parent = TraceContext::parse(parent, "a=1").unwrap();
        let data = SpanData {
            context: parent.child(0xab),
            parent: Some(parent.span_id),
            name: "chat m".to_owned(),
            kind: SpanKind::Client,
            begun: at(1_700_000_000_000_000_001),
            ended: at(1_700_000_000_000_000_002),
            attributes: vec![
                ("text", "x".into()),
                ("texts", Value::Texts(vec!["a".to_owned()])),
                ("int", Value::Int(u64::MAX)),
                ("float", Value::Float(0.5)),
                ("bool", Value::Bool(true)),
            ],
            error: Some("timeout"),
        };
        let json = traces(&json!({}), &[data]);
        assert_eq!(
            json["resourceSpans"][0]["scopeSpans"][0]["spans"][0],
            json!({
                "traceId": "4bf92f3577b34da6a3ce929d0e0e4736",
                "spanId": "00000000000000ab",
                "parentSpanId": "00f067aa0ba902b7",
                "traceState": "a=1",
                "flags": 1,
                "name": "chat m",
                "kind": 3,
                "startTimeUnixNano": "1700000000000000001",
                "endTimeUnixNano": "1700000000000000002",
                "status": { "code": 2, "message": "timeout" },
                "attributes": [
                    { "key": "text", "value": { "stringValue": "x" } },
                    { "key": "texts", "value": { "arrayValue": { "values": [{ "stringValue": "a" }] } } },
                    { "key": "int", "value": { "intValue": "18446744073709551615" } },
                    { "key": "float", "value": { "doubleValue": 0.5 } },
                    { "key": "bool", "value": { "boolValue": true } },
                ],
            })
        );
    }

    #[test]
    fn series_of_an_instrument_are_points_of_one_metric() {
        static CALLS: Instrument =
            Instrument { name: "calls", unit: "{call}", buckets: Buckets::Calls };
        static TIME: Instrument = Instrument { name: "time", unit: "s", buckets: Buckets::Seconds };
        let mut histograms = Histograms::default();
        histograms.record(&CALLS, vec![("tool", "a".to_owned())], 1.0);
        histograms.record(&TIME, Vec::new(), 0.5);
        histograms.record(&CALLS, vec![("tool", "b".to_owned())], 2.0);
        let json = metrics(&json!({}), &histograms, at(1), at(2));
        let metrics = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let names: Vec<_> = metrics.iter().map(|metric| metric["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["calls", "time"]);
        let histogram = &metrics[0]["histogram"];
        assert_eq!(histogram["aggregationTemporality"], 2);
        assert_eq!(histogram["dataPoints"].as_array().unwrap().len(), 2);
        assert_eq!(
            histogram["dataPoints"][1],
            json!({
                "attributes": [{ "key": "tool", "value": { "stringValue": "b" } }],
                "startTimeUnixNano": "1",
                "timeUnixNano": "2",
                "count": "1",
                "sum": 2.0,
                "bucketCounts": ["0", "0", "1", "0", "0", "0", "0", "0", "0", "0"],
                "explicitBounds": [0.0, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
            })
        );
    }
}
