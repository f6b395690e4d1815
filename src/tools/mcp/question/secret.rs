//! Whether a question asks for a secret: a password, a token, a key, or the details of a card.
//!
//! **This is a guess from words.** It keeps honest servers from asking, and users from answering
//! out of habit. A server that wants to deceive can always ask in other words.

use std::borrow::Cow;

use serde_json::Value;

/// What kind of secret a question with this form asks for, if any. What nobody sees has been
/// cleaned from both.
pub(super) fn asked_for(question: &str, schema: &Value) -> Option<&'static str> {
    // A choice, or a yes or no, cannot be a secret, whatever it is about.
    let fields = schema["properties"].as_object();
    let has_room = fields.into_iter().flatten().any(|(_, field)| !is_choice(field));
    let asked = if has_room { in_words(question) } else { None };
    asked.or_else(|| in_schema(schema))
}

/// The same for a schema with all that is in it: nothing makes a form flat.
fn in_schema(schema: &Value) -> Option<&'static str> {
    match schema {
        Value::Array(items) => items.iter().find_map(in_schema),
        Value::Object(members) if !is_choice(schema) => {
            members.iter().find_map(|(key, value)| match (key.as_str(), value) {
                ("format", Value::String(format)) if format == "password" => Some("a password"),
                ("title", Value::String(title)) => in_name(title),
                ("description", Value::String(description)) => in_words(description),
                ("properties", Value::Object(fields)) => fields.iter().find_map(|(name, field)| {
                    let is_asked = !is_choice(field);
                    is_asked.then(|| in_name(name)).flatten().or_else(|| in_schema(field))
                }),
                (_, value) => in_schema(value),
            })
        }
        _ => None,
    }
}

fn is_choice(field: &Value) -> bool {
    let is_const = |choice: &Value| choice.get("const").is_some();
    let titled = ["oneOf", "anyOf"].into_iter().filter_map(|key| field.get(key)?.as_array());
    field["type"] == "boolean"
        || field.get("enum").is_some_and(Value::is_array)
        || titled.into_iter().any(|choices| choices.iter().all(is_const))
        || (field["type"] == "array" && field.get("items").is_some_and(is_choice))
}

/// The secret that a field with this name or title asks for.
fn in_name(name: &str) -> Option<&'static str> {
    let folded = fold(name);
    let words = words(&folded);
    match &words[..] {
        ["key" | "keys"] => Some("a key"),
        ["card"] => Some("card details"),
        ["pass" | "pw"] => Some("a password"),
        [.., "pin"] | [.., "pin", "code" | "number" | "no"] => Some("a PIN"),
        _ => in_words(name),
    }
}

/// The secret that a sentence asks for.
fn in_words(text: &str) -> Option<&'static str> {
    let folded = fold(text);
    let digits_as_letters: String =
        folded.split_inclusive(|char: char| !char.is_alphanumeric()).map(spelled).collect();
    let is_pin = text.split(|char: char| !char.is_alphanumeric()).any(|word| word == "PIN");
    in_folded(&folded)
        .or_else(|| in_folded(&digits_as_letters))
        .or_else(|| is_pin.then_some("a PIN"))
}

fn in_folded(folded: &str) -> Option<&'static str> {
    let joined: String = folded.chars().filter(|char| char.is_alphanumeric()).collect();
    let stem = |(stems, kind): &(&[&str], &'static str)| {
        stems.iter().any(|stem| joined.contains(&*fold(stem))).then_some(*kind)
    };
    if let Some(kind) = STEMS.iter().find_map(stem) {
        return Some(kind);
    }
    let words = words(folded);
    words.iter().enumerate().find_map(|(at, word)| {
        let before = at.checked_sub(1).map_or("", |at| words[at]);
        let after = words.get(at + 1).copied().unwrap_or_default();
        in_word(before, word, after)
    })
}

fn in_word(before: &str, word: &str, after: &str) -> Option<&'static str> {
    match (word, after) {
        ("pwd" | "psw" | "senha" | "parola", _) => return Some("a password"),
        ("otp" | "totp" | "jwt" | "bearer", _) => return Some("a token"),
        ("secret" | "secrets", _) => return Some("a secret"),
        ("cvv" | "cvc", _) | ("card", "number" | "no" | "details") => return Some("card details"),
        ("pin", "code" | "number") => return Some("a PIN"),
        ("pin", _) if before == "your" => return Some("a PIN"),
        ("key", _) if before == "your" && after.is_empty() => return Some("a key"),
        _ if word.ends_with("secret") => return Some("a secret"),
        _ => {}
    }
    let of_word = word.strip_suffix("tokens").or_else(|| word.strip_suffix("token"))?;
    let before = if of_word.is_empty() { before } else { of_word };
    let is_counted = COUNTING_BEFORE.contains(&before) || COUNTING_AFTER.contains(&after);
    let is_many = before == "of" && word.ends_with('s');
    let is_number = before.bytes().all(|byte| byte.is_ascii_digit()) && !before.is_empty();
    (!is_counted && !is_many && !is_number).then_some("a token")
}

/// Parts of words, and of phrases without their spaces, that mean a secret wherever they are.
const STEMS: &[(&[&str], &str)] = &[
    (
        &[
            "password",
            "passwort",
            "passwd",
            "passphrase",
            "passcode",
            "kennwort",
            "contraseña",
            "motdepasse",
            "wachtwoord",
            "пароль",
            "密码",
            "密碼",
            "パスワード",
            "비밀번호",
        ],
        "a password",
    ),
    (
        &[
            "apikey",
            "privatekey",
            "secretkey",
            "accesskey",
            "authkey",
            "encryptionkey",
            "signingkey",
            "masterkey",
            "recoverykey",
            "licensekey",
            "seedphrase",
            "recoveryphrase",
        ],
        "a key",
    ),
    (&["verificationcode", "onetimecode", "recoverycode"], "a token"),
    (&["credential"], "a secret"),
    (
        &[
            "creditcard",
            "debitcard",
            "bankcard",
            "paymentcard",
            "kreditkarte",
            "cartebancaire",
            "securitycode",
        ],
        "card details",
    ),
];

/// Words before `tokens` that make them a number of what models read.
const COUNTING_BEFORE: &[&str] = &[
    "max",
    "maximum",
    "min",
    "minimum",
    "num",
    "number",
    "total",
    "many",
    "per",
    "more",
    "fewer",
    "output",
    "input",
    "prompt",
    "completion",
    "context",
    "stop",
    "special",
    "used",
    "reasoning",
];

/// Words after `token` that do the same, or that are about another kind of token.
const COUNTING_AFTER: &[&str] = &[
    "count", "counts", "limit", "limits", "budget", "size", "length", "usage", "window", "type",
    "price", "cost", "rate", "symbol", "name", "address",
];

/// The words of a text, without digits at their ends.
fn words(folded: &str) -> Vec<&str> {
    let words = folded.split(|char: char| !char.is_alphanumeric());
    let stripped = words.map(|word| match word.trim_end_matches(|it: char| it.is_ascii_digit()) {
        "" => word,
        stripped => stripped,
    });
    stripped.filter(|word| !word.is_empty()).collect()
}

/// Text in lower case, in Latin letters where others look the same, and with a space where a
/// capital begins a word: `apiKey` as `api key`.
fn fold(text: &str) -> String {
    let mut folded = String::new();
    let mut was_lower = false;
    for char in text.chars().map(plain) {
        if char.is_uppercase() && was_lower {
            folded.push(' ');
        }
        was_lower = char.is_lowercase() || char.is_ascii_digit();
        folded.extend(char.to_lowercase().map(look));
    }
    folded
}

/// A word with letters for the digits in it: `passw0rd` as `password`. Numbers stay.
fn spelled(word: &str) -> Cow<'_, str> {
    if word.contains(char::is_alphabetic) {
        word.replace('0', "o").replace('1', "i").replace('3', "e").into()
    } else {
        word.into()
    }
}

/// The plain character for one of full width, or for a mathematical letter.
fn plain(char: char) -> char {
    let code = u32::from(char);
    let plain = match code {
        0xff01..=0xff5e => code - 0xfee0,
        // 13 alphabets of 52 letters each.
        0x1d400..=0x1d6a3 => match (code - 0x1d400) % 52 {
            at @ 0..26 => u32::from('A') + at,
            at => u32::from('a') + at - 26,
        },
        _ => return char,
    };
    char::from_u32(plain).unwrap_or(char)
}

/// The Latin letter that a letter in lower case looks like, if there is one.
fn look(char: char) -> char {
    const ALIKE: &[(&str, char)] = &[
        ("аα@àáâãäå", 'a'),
        ("ϲсç", 'c'),
        ("ԁ", 'd'),
        ("еєèéêë", 'e'),
        ("һ", 'h'),
        ("іιìíîïı", 'i'),
        ("ј", 'j'),
        ("кκ", 'k'),
        ("ӏ", 'l'),
        ("м", 'm'),
        ("ո", 'n'),
        ("оοσòóôõö", 'o'),
        ("рρ", 'p'),
        ("ѕ$", 's'),
        ("тτ", 't'),
        ("υùúûü", 'u'),
        ("ν", 'v'),
        ("ѡԝω", 'w'),
        ("хχ", 'x'),
        ("уý", 'y'),
    ];
    let alike = ALIKE.iter().find(|(letters, _)| letters.contains(char));
    alike.map_or(char, |(_, letter)| *letter)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn of(question: &str, name: &str, field: &Value) -> Option<&'static str> {
        asked_for(question, &json!({ "type": "object", "properties": { name: field } }))
    }

    #[track_caller]
    fn check_names(names: &[&str], is_secret: bool) {
        for name in names {
            assert_eq!(of("?", name, &json!({ "type": "string" })).is_some(), is_secret, "{name}");
        }
    }

    #[test]
    fn names_of_secrets_are_known_in_compounds() {
        check_names(
            &[
                "password",
                "password2",
                "userPasswords",
                "PASSWORD",
                "pwd",
                "db-passwd",
                "pass",
                "passphrase",
                "Passwort",
                "p@ssw0rd",
                "key",
                "apiKey",
                "API_KEY",
                "api-key",
                "privateKeyPem",
                "card",
                "cardNumber",
                "creditcard",
                "credit card",
                "cvv",
                "CVC2",
                "token",
                "tokens",
                "token1",
                "access-token",
                "accesstoken",
                "githubToken",
                "secret",
                "clientSecret",
                "user secret",
                "credentials",
                "pin",
                "card_pin",
                "pinCode",
                "otp",
                "p a s s w o r d",
            ],
            true,
        );
        check_names(
            &[
                "раѕѕword",
                "pаssword",
                "ｐａｓｓｗｏｒｄ",
                "𝐩𝐚𝐬𝐬𝐰𝐨𝐫𝐝",
                "пароль",
                "contraseña",
                "密码",
            ],
            true,
        );
    }

    #[test]
    fn names_of_other_things_are_not_secrets() {
        check_names(
            &[
                "name",
                "keyboard",
                "monkey",
                "keyword",
                "key_points",
                "sort_key",
                "hotkey",
                "public_key",
                "max_tokens",
                "maxTokens",
                "token_count",
                "tokenizer",
                "number_of_tokens",
                "postcard",
                "card_type",
                "discard",
                "discard_number",
                "cardinality",
                "secretary",
                "pinned",
                "pin_to_top",
                "spinner",
                "passenger",
                "passport",
                "compass",
                "size",
                "e-mail",
                "code",
            ],
            false,
        );
    }

    #[test]
    fn questions_and_descriptions_are_read_as_well() {
        let text = json!({ "type": "string" });
        for words in [
            "Please enter your GitHub password",
            "Enter your token, max 40 letters",
            "Paste the API key from the settings",
            "What is your PIN?",
            "Your credit card, please.",
            "Bitte das Passwort eingeben",
        ] {
            assert!(of(words, "value", &text).is_some(), "{words}");
            let described = json!({ "type": "string", "description": words });
            assert!(of("?", "value", &described).is_some(), "{words}");
            let titled = json!({ "type": "string", "title": words });
            assert!(of("?", "value", &titled).is_some(), "{words}");
        }
        for words in [
            "Maximum number of tokens to write",
            "Up to 100 tokens?",
            "Which keyboard layout?",
            "Where should the pin go on the map?",
            "The key points of the talk",
            "Which card of the board?",
            "Who is your secretary?",
        ] {
            assert_eq!(of(words, "value", &text), None, "{words}");
        }
        assert!(of("?", "value", &json!({ "format": "password" })).is_some());
    }

    #[test]
    fn a_choice_is_not_a_secret_and_a_field_within_a_field_may_be() {
        let question = "Reset the password?";
        for choice in [
            json!({ "type": "boolean" }),
            json!({ "enum": ["reset the password", "keep it"] }),
            json!({ "oneOf": [{ "const": "1", "title": "Reset the password" }] }),
            json!({ "type": "array", "items": { "enum": ["a"] } }),
        ] {
            assert_eq!(of(question, "password", &choice), None);
        }
        let open = json!({ "oneOf": [{ "const": "1" }, { "type": "string" }] });
        assert!(of(question, "value", &open).is_some());
        let inner = json!({ "type": "object", "properties": { "password": { "type": "string" } } });
        assert!(of("?", "value", &inner).is_some());
    }
}
