//! The current time, anywhere.

use std::future;
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::Clock;
use crate::time_zones;
use crate::tools::{CallContext, Example, Policy, Source, Tool, ToolFuture, ToolResult, ToolSpec};

/// The tool `get_current_time`.
#[derive(Debug)]
pub struct GetCurrentTime {
    spec: Arc<ToolSpec>,
    clock: Clock,
}

impl GetCurrentTime {
    /// The tool, with the system's clock.
    #[must_use]
    pub(crate) fn new() -> Self {
        Self::with_clock(Clock::default())
    }

    /// The tool, with this clock.
    #[must_use]
    pub fn with_clock(clock: Clock) -> Self {
        Self { spec: Arc::new(spec()), clock }
    }
}

impl Default for GetCurrentTime {
    fn default() -> Self {
        Self::new()
    }
}

impl Tool for GetCurrentTime {
    fn spec(&self) -> &Arc<ToolSpec> {
        &self.spec
    }

    fn call(&self, arguments: Value, _context: CallContext) -> ToolFuture {
        Box::pin(future::ready(Ok(answer(self.clock.now(), &arguments))))
    }
}

fn spec() -> ToolSpec {
    ToolSpec {
        name: "get_current_time".to_owned(),
        description:
            "Tells the current date and time anywhere. Use it whenever the answer depends \
                      on what time or day it is now."
                .to_owned(),
        parameters: json!({
            "type": "object",
            "properties": {
                "timezone": {
                    "type": "string",
                    "description": "A city such as \"Berlin\", an IANA name or an offset such as \
                                    \"UTC+2\". Default: UTC.",
                    "minLength": 1
                }
            },
            "additionalProperties": false
        }),
        waiting_hint: "checking the time".to_owned(),
        example: Some(Example {
            question: "what time is it in Tokyo?".to_owned(),
            arguments: json!({ "timezone": "Tokyo" }),
            result: json!({
                "timezone": "Asia/Tokyo",
                "time": "Friday, 2 May 2025, 21:40:00",
                "utc_offset": "+09:00"
            }),
            answer: "In Tokyo it is Friday, 2 May 2025, 21:40.".to_owned(),
        }),
        policy: Policy::default(),
        source: Source::builtin(),
        ..ToolSpec::default()
    }
}

fn answer(now: Timestamp, arguments: &Value) -> ToolResult {
    let name = arguments["timezone"].as_str().unwrap_or("UTC");
    let Some((id, zone)) = time_zones::find(name) else { return unknown_zone(name) };
    let time = now.to_zoned(zone);
    // "Saturday, 21 November 2026, 23:08:11" and "+01:00"
    let (told, utc_offset) = (time.strftime("%A, %-d %B %Y, %H:%M:%S"), time.strftime("%:z"));
    ToolResult::data(json!({
        "timezone": id,
        "time": told.to_string(),
        "utc_offset": utc_offset.to_string(),
    }))
}

fn unknown_zone(name: &str) -> ToolResult {
    // Capitals only: CST, for example, is a zone in America, China and Cuba.
    let abbreviation =
        (2..=5).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_uppercase());
    let message = format!("there is no time zone called {}", crate::text::quote(name));
    ToolResult::error(if abbreviation {
        format!(
            "{message}; abbreviations are ambiguous, give the IANA name of a city there, such \
             as America/Los_Angeles"
        )
    } else {
        format!("{message}; the closest IANA names are {}", time_zones::closest(name).join(", "))
    })
}

#[cfg(test)]
mod tests {
    use jiff::civil::DateTime;
    use jiff::tz::TimeZone;
    use proptest::prelude::*;

    use super::*;
    use crate::tools::schema::Schema;

    /// Checks that the call gives this time and offset at `now`.
    #[track_caller]
    fn check(now: &str, arguments: &Value, time: &str, utc_offset: &str) {
        Schema::compile(&spec().parameters).unwrap().validate(arguments).unwrap();
        let data = answer(now.parse().unwrap(), arguments).data.unwrap();
        assert_eq!(
            (data["time"].as_str(), data["utc_offset"].as_str()),
            (Some(time), Some(utc_offset))
        );
    }

    /// Checks that at `now` the zone has this date, time and offset.
    #[track_caller]
    fn check_zone(now: &str, timezone: &str, time: &str) {
        let local: DateTime = time[..19].parse().unwrap();
        let told = local.strftime("%A, %-d %B %Y, %H:%M:%S").to_string();
        check(now, &json!({ "timezone": timezone }), &told, &time[19..]);
    }

    #[test]
    fn the_time_is_in_the_requested_zone() {
        let now = "2026-11-21T22:08:11.987Z";
        check(now, &json!({}), "Saturday, 21 November 2026, 22:08:11", "+00:00");
        check(
            now,
            &json!({"timezone": "Asia/Tokyo"}),
            "Sunday, 22 November 2026, 07:08:11",
            "+09:00",
        );
    }

    #[test]
    fn clocks_change_when_their_zone_says_so() {
        // Berlin springs forward from 02:00 to 03:00.
        check_zone("2026-03-29T00:59:59Z", "Europe/Berlin", "2026-03-29T01:59:59+01:00");
        check_zone("2026-03-29T01:00:00Z", "Europe/Berlin", "2026-03-29T03:00:00+02:00");
        // New York falls back, so 01:30 occurs twice.
        check_zone("2026-11-01T05:30:00Z", "America/New_York", "2026-11-01T01:30:00-04:00");
        check_zone("2026-11-01T06:30:00Z", "America/New_York", "2026-11-01T01:30:00-05:00");
        // Lord Howe Island moves by half an hour.
        check_zone("2026-04-04T14:59:59Z", "Australia/Lord_Howe", "2026-04-05T01:59:59+11:00");
        check_zone("2026-04-04T15:00:00Z", "Australia/Lord_Howe", "2026-04-05T01:30:00+10:30");
    }

    #[test]
    fn offsets_need_not_be_whole_hours() {
        let now = "2026-01-01T00:00:00Z";
        check_zone(now, "Asia/Kolkata", "2026-01-01T05:30:00+05:30");
        check_zone(now, "Asia/Kathmandu", "2026-01-01T05:45:00+05:45");
        check_zone(now, "America/St_Johns", "2025-12-31T20:30:00-03:30");
        check_zone(now, "Pacific/Kiritimati", "2026-01-01T14:00:00+14:00");
        check_zone(now, "UTC-3:30", "2025-12-31T20:30:00-03:30");
    }

    #[test]
    fn the_answer_names_the_zone_that_was_meant() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        for name in ["new york", "America/New_York,", " New York. "] {
            let data = answer(now, &json!({ "timezone": name })).data.unwrap();
            assert_eq!(data["timezone"], "America/New_York");
        }
    }

    #[test]
    fn an_unknown_zone_gets_a_helpful_error() {
        let now = "2026-01-01T00:00:00Z".parse().unwrap();
        let error = |name: &str| answer(now, &json!({"timezone": name})).error.unwrap();
        assert!(
            error("Europe/Berln").starts_with(
                "there is no time zone called \"Europe/Berln\"; the closest IANA names are Europe/Berlin, "
            ),
            "{}",
            error("Europe/Berln")
        );
        assert!(error("PST").contains("abbreviations are ambiguous"), "{}", error("PST"));
    }

    #[tokio::test]
    async fn the_tool_reads_its_clock_at_each_call() {
        let tool = GetCurrentTime::with_clock(Clock::new(|| Timestamp::UNIX_EPOCH));
        let data = tool.call(json!({}), CallContext::first("k")).await.unwrap().data.unwrap();
        assert_eq!(data["time"], "Thursday, 1 January 1970, 00:00:00");
        let before = Timestamp::now().as_second();
        let data = GetCurrentTime::new()
            .call(json!({}), CallContext::first("k"))
            .await
            .unwrap()
            .data
            .unwrap();
        let told = DateTime::strptime("%A, %d %B %Y, %H:%M:%S", data["time"].as_str().unwrap());
        let told = told.unwrap().to_zoned(TimeZone::UTC).unwrap().timestamp().as_second();
        assert!((before..=Timestamp::now().as_second()).contains(&told));
    }

    proptest! {
        // Each unknown name is compared with all zones.
        #![proptest_config(ProptestConfig::with_cases(32))]

        #[test]
        fn any_zone_is_answered(name in any::<String>(), now in Timestamp::MIN.as_second()..=Timestamp::MAX.as_second()) {
            let now = Timestamp::from_second(now).unwrap();
            let result = answer(now, &json!({"timezone": name}));
            prop_assert_eq!(result.clone().checked(), result);
        }
    }
}
