//! Spans and histograms as messages of OTLP.

use std::time::{SystemTime, UNIX_EPOCH};

use super::histograms::{Histograms, Instrument};
use super::proto::{
    AnyValue, AnyValueKind, ArrayValue, Histogram, HistogramDataPoint, InstrumentationScope,
    KeyValue, Metric, MetricsRequest, Resource, ResourceMetrics, ResourceSpans, ScopeMetrics,
    ScopeSpans, Span, Status, TracesRequest,
};
use crate::telemetry::span_data::{Attributes, SpanData, SpanKind, Value};
use crate::version;

/// `Status.StatusCode.STATUS_CODE_ERROR`
const STATUS_ERROR: i32 = 2;
/// `AggregationTemporality.AGGREGATION_TEMPORALITY_CUMULATIVE`
const CUMULATIVE: i32 = 2;

/// The resource that all of it belongs to: this process.
pub(super) fn resource(service: &str, instance: &str) -> Resource {
    let attributes = [
        ("service.name", service),
        ("service.version", version::VERSION),
        ("service.instance.id", instance),
    ];
    Resource { attributes: attributes.map(|(key, value)| attribute(key, &value.into())).into() }
}

fn scope() -> InstrumentationScope {
    InstrumentationScope { name: "tether".to_owned(), version: version::VERSION.to_owned() }
}

/// The body of a request to `/v1/traces`.
pub(super) fn traces(resource: &Resource, spans: &[SpanData]) -> TracesRequest {
    let scope_spans =
        vec![ScopeSpans { scope: Some(scope()), spans: spans.iter().map(span).collect() }];
    let resource_spans = vec![ResourceSpans { resource: Some(resource.clone()), scope_spans }];
    TracesRequest { resource_spans }
}

fn span(span: &SpanData) -> Span {
    let SpanData { context, parent, name, kind, begun, ended, attributes, error } = span;
    Span {
        trace_id: context.trace_id.to_be_bytes().into(),
        span_id: context.span_id.to_be_bytes().into(),
        trace_state: context.state.as_deref().unwrap_or_default().to_owned(),
        parent_span_id: parent.map(|parent| parent.to_be_bytes().into()).unwrap_or_default(),
        name: name.clone(),
        kind: match kind {
            SpanKind::Internal => 1,
            SpanKind::Client => 3,
        },
        start_time_unix_nano: nanos(*begun),
        end_time_unix_nano: nanos(*ended),
        attributes: pairs(attributes),
        status: error.map(|error| Status { message: error.to_owned(), code: STATUS_ERROR }),
        flags: context.flags.into(),
    }
}

/// The body of a request to `/v1/metrics`: everything since `begun`.
pub(super) fn metrics(
    resource: &Resource,
    histograms: &Histograms,
    begun: SystemTime,
    now: SystemTime,
) -> MetricsRequest {
    let mut metrics: Vec<Metric> = Vec::new();
    let mut last: Option<&Instrument> = None;
    for (instrument, labels, measured) in histograms.iter() {
        if last != Some(instrument) {
            metrics.push(Metric {
                name: instrument.name.to_owned(),
                unit: instrument.unit.to_owned(),
                histogram: Some(Histogram {
                    data_points: Vec::new(),
                    aggregation_temporality: CUMULATIVE,
                }),
            });
            last = Some(instrument);
        }
        let labels = labels.iter().map(|(key, value)| attribute(key, &value.as_str().into()));
        let point = HistogramDataPoint {
            start_time_unix_nano: nanos(begun),
            time_unix_nano: nanos(now),
            count: measured.counts.iter().sum(),
            sum: Some(measured.sum),
            bucket_counts: measured.counts.clone(),
            explicit_bounds: instrument.buckets.bounds().to_vec(),
            attributes: labels.collect(),
        };
        if let Some(histogram) = metrics.last_mut().and_then(|metric| metric.histogram.as_mut()) {
            histogram.data_points.push(point);
        }
    }
    let scope_metrics = vec![ScopeMetrics { scope: Some(scope()), metrics }];
    let resource_metrics =
        vec![ResourceMetrics { resource: Some(resource.clone()), scope_metrics }];
    MetricsRequest { resource_metrics }
}

fn pairs(attributes: &Attributes) -> Vec<KeyValue> {
    attributes.iter().map(|(key, value)| attribute(key, value)).collect()
}

fn attribute(key: &str, value: &Value) -> KeyValue {
    let text = |text: &String| AnyValueKind::Text(text.clone());
    let any = |kind| AnyValue { kind: Some(kind) };
    let kind = match value {
        Value::Text(value) => text(value),
        Value::Texts(values) => {
            AnyValueKind::Array(ArrayValue { values: values.iter().map(text).map(any).collect() })
        }
        Value::Int(number) => AnyValueKind::Int(i64::try_from(*number).unwrap_or(i64::MAX)),
        Value::Float(number) => AnyValueKind::Float(*number),
        Value::Bool(value) => AnyValueKind::Bool(*value),
    };
    KeyValue { key: key.to_owned(), value: Some(any(kind)) }
}

/// Nanoseconds, which will not exceed 64 bits before the year 2554.
fn nanos(time: SystemTime) -> u64 {
    let nanos = time.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    u64::try_from(nanos).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceRequest;
    use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
    use prost::Message;
    use serde::Serialize;
    use serde_json::{Value as Json, json};

    use super::super::histograms::Buckets;
    use super::*;
    use crate::trace_context::TraceContext;

    fn at(nanos: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_nanos(nanos)
    }

    /// What a collector reads, by OpenTelemetry's own definitions; fields without a value are left out.
    fn read<T: Message + Default + Serialize>(sent: &impl Message) -> Json {
        let mut json = serde_json::to_value(T::decode(&*sent.encode_to_vec()).unwrap()).unwrap();
        leave_out_defaults(&mut json);
        json
    }

    fn leave_out_defaults(json: &mut Json) {
        match json {
            Json::Object(fields) => {
                fields.values_mut().for_each(leave_out_defaults);
                fields.retain(|_, value| {
                    ![json!(null), json!(""), json!(0), json!("0"), json!([])].contains(value)
                });
            }
            Json::Array(values) => values.iter_mut().for_each(leave_out_defaults),
            _ => {}
        }
    }

    #[test]
    fn a_span_as_a_collector_reads_it() {
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
                ("int", Value::Int(7)),
                ("too large", Value::Int(u64::MAX)),
                ("float", Value::Float(0.5)),
                ("bool", Value::Bool(true)),
            ],
            error: Some("timeout"),
        };
        let resource = resource("gw", "1");
        let json = read::<ExportTraceServiceRequest>(&traces(&resource, &[data]));
        assert_eq!(
            json["resourceSpans"][0]["resource"]["attributes"],
            json!([
                { "key": "service.name", "value": { "stringValue": "gw" } },
                { "key": "service.version", "value": { "stringValue": version::VERSION } },
                { "key": "service.instance.id", "value": { "stringValue": "1" } },
            ])
        );
        let scope_spans = &json["resourceSpans"][0]["scopeSpans"][0];
        assert_eq!(scope_spans["scope"], json!({ "name": "tether", "version": version::VERSION }));
        assert_eq!(
            scope_spans["spans"][0],
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
                    { "key": "int", "value": { "intValue": "7" } },
                    { "key": "too large", "value": { "intValue": "9223372036854775807" } },
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
        let sent = metrics(&Resource::default(), &histograms, at(1), at(2));
        let json = read::<ExportMetricsServiceRequest>(&sent);
        let metrics = json["resourceMetrics"][0]["scopeMetrics"][0]["metrics"].as_array().unwrap();
        let names: Vec<_> =
            metrics.iter().map(|metric| (&metric["name"], &metric["unit"])).collect();
        assert_eq!(names, [(&json!("calls"), &json!("{call}")), (&json!("time"), &json!("s"))]);
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
