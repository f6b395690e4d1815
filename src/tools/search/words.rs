//! The words of names and sentences, as they are searched for.

/// Calls `found` with each word of a text: in lower case, without a plural's ending. Names are
/// taken apart at `_`, `.`, `-` and where a capital follows a small letter. Words that say nothing
/// about tools are left out.
pub(super) fn each(text: &str, mut found: impl FnMut(&str)) {
    let mut word = String::new();
    let mut before = ' ';
    for char in text.chars() {
        let begins = char.is_uppercase() && before.is_lowercase()
            || char.is_numeric() != before.is_numeric();
        if begins || !char.is_alphanumeric() {
            end(&mut word, &mut found);
        }
        if char.is_alphanumeric() {
            word.extend(char.to_lowercase());
        }
        before = char;
    }
    end(&mut word, &mut found);
}

fn end(word: &mut String, found: &mut impl FnMut(&str)) {
    if !word.is_empty() && !SAYS_NOTHING.contains(&&**word) {
        found(stem(word));
    }
    word.clear();
}

/// An English word without the ending of a plural. Not every stem is a word: `cache` and `caches`
/// both become `cach`, as `box` and `boxes` become `box`.
fn stem(word: &mut String) -> &str {
    if word.len() > 4 && word.ends_with("ies") {
        word.truncate(word.len() - 3);
        word.push('y');
    } else if word.len() > 3
        && word.ends_with('s')
        && !["ss", "us", "is"].iter().any(|end| word.ends_with(end))
    {
        word.pop();
    }
    if word.len() > 3 && ["che", "she", "sse", "xe"].iter().any(|end| word.ends_with(end)) {
        word.pop();
    }
    word
}

/// Frequent words that are as likely in any question as in any description.
const SAYS_NOTHING: [&str; 44] = [
    "a", "all", "an", "and", "any", "are", "as", "at", "be", "by", "can", "could", "do", "does",
    "for", "from", "given", "how", "i", "if", "in", "is", "it", "its", "me", "my", "of", "on",
    "or", "please", "should", "that", "the", "this", "to", "use", "used", "want", "what", "which",
    "will", "with", "would", "you",
];

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn words(text: &str) -> Vec<String> {
        let mut words = Vec::new();
        each(text, |word| words.push(word.to_owned()));
        words
    }

    #[test]
    fn names_are_taken_apart() {
        for name in ["get_user_events", "getUserEvents", "get.user-events", "GET User events"] {
            assert_eq!(words(name), ["get", "user", "event"], "{name}");
        }
        assert_eq!(words("base64Decode HTTP2"), ["base", "64", "decode", "http", "2"]);
    }

    #[test]
    fn plurals_are_found_by_their_singular() {
        for (plural, singular) in [
            ("cities", "city"),
            ("events", "event"),
            ("boxes", "box"),
            ("classes", "class"),
            ("searches", "search"),
            ("dishes", "dish"),
            ("caches", "cache"),
        ] {
            assert_eq!(words(plural), words(singular));
        }
        assert_eq!(words("bus analysis class she axe"), ["bus", "analysis", "class", "she", "axe"]);
    }

    #[test]
    fn other_alphabets_have_words_too() {
        assert_eq!(words("Wie wird das Wetter in Köln?"), ["wie", "wird", "das", "wetter", "köln"]);
        assert_eq!(words("天気 予報"), ["天気", "予報"]);
    }

    proptest! {
        #[test]
        fn any_text_has_plain_words(text in any::<String>()) {
            each(&text, |word| assert!(!word.is_empty() && !word.contains([' ', '_', '.'])));
        }
    }
}
