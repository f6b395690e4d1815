//! Time zones by the names that people and models use.
//!
//! Uses the bundled database, so that a name means the same on every machine. Never guesses: a
//! name that could mean two zones means none.

use jiff::tz::{Offset, TimeZone, TimeZoneDatabase};

use crate::text;

/// Cities that people ask for but the database does not name, or names twice.
const CITIES: &[(&str, &str)] = &[
    ("bangalore", "Asia/Kolkata"),
    ("barcelona", "Europe/Madrid"),
    ("beijing", "Asia/Shanghai"),
    ("bengaluru", "Asia/Kolkata"),
    ("boston", "America/New_York"),
    ("buenos aires", "America/Argentina/Buenos_Aires"),
    ("cape town", "Africa/Johannesburg"),
    ("cologne", "Europe/Berlin"),
    ("delhi", "Asia/Kolkata"),
    ("frankfurt", "Europe/Berlin"),
    ("geneva", "Europe/Zurich"),
    ("hamburg", "Europe/Berlin"),
    ("hanoi", "Asia/Bangkok"),
    ("houston", "America/Chicago"),
    ("indianapolis", "America/Indiana/Indianapolis"),
    ("istanbul", "Europe/Istanbul"),
    ("las vegas", "America/Los_Angeles"),
    ("louisville", "America/Kentucky/Louisville"),
    ("mendoza", "America/Argentina/Mendoza"),
    ("miami", "America/New_York"),
    ("milan", "Europe/Rome"),
    ("montreal", "America/Toronto"),
    ("mumbai", "Asia/Kolkata"),
    ("munich", "Europe/Berlin"),
    ("new delhi", "Asia/Kolkata"),
    ("nicosia", "Asia/Nicosia"),
    ("osaka", "Asia/Tokyo"),
    ("philadelphia", "America/New_York"),
    ("rio de janeiro", "America/Sao_Paulo"),
    ("san francisco", "America/Los_Angeles"),
    ("seattle", "America/Los_Angeles"),
    ("shenzhen", "Asia/Shanghai"),
    ("st petersburg", "Europe/Moscow"),
    ("washington dc", "America/New_York"),
    ("washington", "America/New_York"),
];

/// The most zones to suggest for an unknown name.
const CLOSEST_MAX: usize = 5;

/// The zone of an IANA name, a city, or an offset such as `UTC+5:30`, and its canonical name.
pub(crate) fn find(name: &str) -> Option<(String, TimeZone)> {
    let zones = jiff::tz::db();
    // Small models write `Asia/Tokyo,` as if a sentence went on.
    let name = name.trim_end_matches([' ', ',', '.', ';']).trim();
    if let Some(offset) = fixed_offset(name) {
        return Some((format!("UTC{offset}"), TimeZone::fixed(offset)));
    }
    let zone = by_id(zones, &name.replace(' ', "_")).or_else(|| by_city(zones, name))?;
    let id = zone.iana_name()?.to_owned();
    Some((id, zone))
}

/// The zones whose names most resemble `name`, closest first.
pub(crate) fn closest(name: &str) -> Vec<String> {
    let wanted = plain(name);
    let wanted_city = city(&wanted);
    let mut alike: Vec<(f64, String)> = ids(jiff::tz::db())
        .map(|id| {
            let known = plain(&id);
            // A known city with extra words: `Nairobi, Kenya`, `Lima at the moment`.
            if text::find_whole(&wanted, city(&known), char::is_alphanumeric).next().is_some() {
                return (1.0, id);
            }
            let whole = strsim::normalized_damerau_levenshtein(&wanted, &known);
            let city = strsim::normalized_damerau_levenshtein(wanted_city, city(&known));
            (whole.max(city), id)
        })
        .collect();
    alike.sort_by(|a, b| b.0.total_cmp(&a.0));
    alike.into_iter().take(CLOSEST_MAX).map(|(_, id)| id).collect()
}

fn by_id(zones: &TimeZoneDatabase, id: &str) -> Option<TimeZone> {
    // Some names in the database mean an unknown zone.
    let is_real = |zone: &TimeZone| !zone.is_unknown() && !id.eq_ignore_ascii_case("Factory");
    zones.get(id).ok().filter(is_real)
}

/// The zone of a city in the table, or the only zone whose name ends in the city. For
/// `Perth, Australia`, both parts must match: with another region, it may be a different Perth.
fn by_city(zones: &TimeZoneDatabase, name: &str) -> Option<TimeZone> {
    let wanted = plain(name);
    if let Some((_, id)) = CITIES.iter().find(|(city, _)| *city == wanted.replace(',', "")) {
        return by_id(zones, id);
    }
    if let Some((city, region)) = wanted.split_once(", ") {
        return by_id(zones, &format!("{region}/{city}").replace(' ', "_"));
    }
    let mut named = ids(zones).filter(|id| names_a_city(id) && city(&plain(id)) == wanted);
    let id = named.next()?;
    named.next().is_none().then(|| by_id(zones, &id))?
}

/// Whether the name of a zone ends in a city. `Brazil/East` and `Etc/GMT` do not. In Argentina,
/// Australia and North Dakota, the last part may be a plain word or another place.
fn names_a_city(id: &str) -> bool {
    const AREAS: [&str; 10] = [
        "Africa/",
        "America/",
        "Antarctica/",
        "Arctic/",
        "Asia/",
        "Atlantic/",
        "Australia/",
        "Europe/",
        "Indian/",
        "Pacific/",
    ];
    const OTHERS: [&str; 7] = [
        "America/Argentina/San_Juan",
        "America/North_Dakota/Center",
        "Australia/North",
        "Australia/South",
        "Australia/Tasmania",
        "Australia/Victoria",
        "Australia/West",
    ];
    AREAS.iter().any(|area| id.starts_with(area)) && !OTHERS.contains(&id)
}

fn ids(zones: &TimeZoneDatabase) -> impl Iterator<Item = String> + '_ {
    zones.available().map(|id| id.as_str().to_owned())
}

/// The last part of a zone's name.
fn city(id: &str) -> &str {
    id.rsplit('/').next().unwrap_or(id)
}

/// Lower case, words separated by single spaces, no dots.
fn plain(name: &str) -> String {
    // Longer than any zone name, but short enough to compare with all of them.
    const CHARS_MAX: usize = 64;
    let name: String = name
        .chars()
        .take(CHARS_MAX)
        .filter(|char| *char != '.')
        .map(|char| if matches!(char, '_' | '-') { ' ' } else { char })
        .collect();
    name.to_lowercase().split_whitespace().collect::<Vec<_>>().join(" ")
}

/// `UTC+2`, `GMT-03:30`, `+0530`; signs as people read them, so east is plus.
fn fixed_offset(name: &str) -> Option<Offset> {
    let upper = name.to_ascii_uppercase().replace('−', "-").replace(' ', "");
    let rest = upper.strip_prefix("UTC").or_else(|| upper.strip_prefix("GMT")).unwrap_or(&upper);
    let (sign, digits) = match rest.split_at_checked(1)? {
        ("+", digits) => (1, digits),
        ("-", digits) => (-1, digits),
        _ => return None,
    };
    let (hours, minutes) = match digits.split_once(':') {
        Some(parts) => parts,
        None if digits.len() == 4 => digits.split_at_checked(2)?,
        None => (digits, "0"),
    };
    let number = |text: &str| -> Option<i32> {
        let plain = (1..=2).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
        if plain { text.parse().ok() } else { None }
    };
    let (hours, minutes) = (number(hours)?, number(minutes)?);
    // Offsets in use range from -12:00 to +14:00.
    let seconds = sign * (hours * 3600 + minutes * 60);
    let in_use = (-12 * 3600..=14 * 3600).contains(&seconds) && minutes < 60;
    if in_use { Offset::from_seconds(seconds).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, id: Option<&str>) {
        assert_eq!(find(name).map(|(id, _)| id).as_deref(), id, "{name:?}");
    }

    #[test]
    fn zones_are_found_by_id_city_and_offset() {
        check("Europe/Berlin", Some("Europe/Berlin"));
        check("america/new york", Some("America/New_York"));
        check("UTC", Some("UTC"));
        check(" tokyo ", Some("Asia/Tokyo"));
        check("New York", Some("America/New_York"));
        check("Buenos Aires", Some("America/Argentina/Buenos_Aires"));
        check("san francisco", Some("America/Los_Angeles"));
        check("Perth, Australia", Some("Australia/Perth"));
        check("St. Petersburg", Some("Europe/Moscow"));
        check("UTC+2", Some("UTC+02"));
        check("gmt-3:30", Some("UTC-03:30"));
        check("+0530", Some("UTC+05:30"));
        check("UTC+14", Some("UTC+14"));
        check("UTC + 2", Some("UTC+02"));
        check("UTC−5", Some("UTC-05"));
        check("Washington, D.C.", Some("America/New_York"));
    }

    #[test]
    fn unknown_and_ambiguous_names_are_not_guessed() {
        for name in [
            "",
            "Mars/Phobos",
            "Springfield",
            "Central",
            "Center",
            "East",
            "General",
            "Factory",
            "San Juan",
            "Victoria",
            "London, Ontario",
            "Canada/London",
            "Lima at the moment",
            "PST",
            "Etc/Unknown",
            "UTC+15",
            "UTC+2:60",
            "UTC+-2",
            "+",
        ] {
            check(name, None);
        }
    }

    #[test]
    fn every_city_of_the_table_has_a_zone() {
        for (name, id) in CITIES {
            check(name, Some(id));
            assert_eq!(*name, plain(name), "the table is written as names are compared");
        }
    }

    #[test]
    fn the_closest_names_come_first() {
        assert_eq!(closest("Europe/Berln")[0], "Europe/Berlin");
        assert_eq!(closest("Tokio")[0], "Asia/Tokyo");
        assert_eq!(closest("Canada/Vancouver")[0], "America/Vancouver");
        assert_eq!(closest("Nairobi, Kenya")[0], "Africa/Nairobi");
        assert_eq!(closest("Lima at the moment")[0], "America/Lima");
        assert_ne!(closest("Limassol")[0], "America/Lima");
        assert_eq!(closest(&"x".repeat(100_000)).len(), CLOSEST_MAX);
    }
}
