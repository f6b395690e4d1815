//! Ends a message at a text where the client wants it to end.
//!
//! The texts are looked for in the words that the user sees. A model server would also find them
//! inside a call, and cut it off. What may be the beginning of such a text is held back:
//!
//! ```text
//!   words    One. Two. EN|D of it.        for the stop text "END"
//!            '-- shown -''-'held back, then dropped with all that follows
//! ```
//!
//! A text that is only white space is not looked for before a message's first word: a call stands on a
//! line of its own, and a model that is to stop at the end of a line could not make any.

/// Looks for the texts at which a message ends. What it has to see next is the rest of the same
/// message.
#[derive(Debug, Default)]
pub(super) struct StopTexts {
    searches: Vec<Search>,
    /// The words that may be the beginning of a text.
    held: String,
    /// Whether the message has had a word.
    has_begun: bool,
    /// Which search has found its text in this message.
    found: Option<usize>,
}

/// The search for one text, as Knuth, Morris and Pratt do it: each byte is seen once.
#[derive(Debug)]
struct Search {
    text: Box<str>,
    /// Whether it is only white space.
    is_blank: bool,
    /// For each length of a match, the length of the longest shorter one that may go on instead.
    shorter: Box<[usize]>,
    /// How many bytes of the text the words end with.
    matched: usize,
}

impl StopTexts {
    pub(super) fn new(texts: &[String]) -> Self {
        let texts = texts.iter().filter(|text| !text.is_empty());
        let searches = texts.map(|text| Search::new(text)).collect();
        Self { searches, ..Self::default() }
    }

    /// Whether there is no text to look for.
    pub(super) const fn is_empty(&self) -> bool {
        self.searches.is_empty()
    }

    /// The text at which this message ends.
    pub(super) fn found(&self) -> Option<&str> {
        self.found.map(|at| &*self.searches[at].text)
    }

    /// A message begins. Drops what was held back of the previous one.
    pub(super) fn begin_message(&mut self) {
        self.held.clear();
        self.has_begun = false;
        self.found = None;
        self.forget();
    }

    /// Puts back what was held back, before more words are added to it.
    pub(super) fn put_back(&mut self, words: &mut String) {
        words.push_str(&self.held);
        self.held.clear();
    }

    /// Looks at the words from `from` on, which have not been seen. Takes away what may be the
    /// beginning of a text, or a text and all that follows it. Returns whether it was a text.
    pub(super) fn check(&mut self, words: &mut String, from: usize) -> bool {
        let blank = if self.has_begun { 0 } else { blank_bytes(&words[from..]) };
        self.has_begun |= from + blank < words.len();
        for (at, byte) in words.as_bytes()[from..].iter().enumerate() {
            // Of several that end here, the longest began first.
            let searches = self.searches.iter_mut().enumerate();
            let searches = searches.filter(|(_, search)| at >= blank || !search.is_blank);
            let found = searches.filter_map(|(nth, search)| Some((search.push(*byte)?, nth)));
            if let Some((length, nth)) = found.max() {
                words.truncate(from + at + 1 - length);
                self.found = Some(nth);
                self.forget();
                return true;
            }
        }
        let matched = self.searches.iter().map(|search| search.matched).max().unwrap_or_default();
        let shown = words.len() - matched;
        self.held.push_str(&words[shown..]);
        words.truncate(shown);
        false
    }

    /// The words end here, or something else comes between them: no text goes on.
    pub(super) fn finish(&mut self, words: &mut String) {
        self.put_back(words);
        self.forget();
    }

    fn forget(&mut self) {
        for search in &mut self.searches {
            search.matched = 0;
        }
    }
}

/// How long the white space at the start of a text is.
fn blank_bytes(text: &str) -> usize {
    text.len() - text.trim_start().len()
}

impl Search {
    fn new(text: &str) -> Self {
        let mut search = Self {
            text: text.into(),
            is_blank: text.trim().is_empty(),
            shorter: vec![0; text.len()].into(),
            matched: 0,
        };
        for at in 1..text.len() {
            search.step(text.as_bytes()[at]);
            search.shorter[at] = search.matched;
        }
        search.matched = 0;
        search
    }

    /// Takes the next byte. If the text ends with it, returns the text's length.
    fn push(&mut self, byte: u8) -> Option<usize> {
        self.step(byte);
        let length = self.text.len();
        (self.matched == length).then(|| {
            self.matched = self.shorter[length - 1];
            length
        })
    }

    fn step(&mut self, byte: u8) {
        let text = self.text.as_bytes();
        while self.matched > 0 && text[self.matched] != byte {
            self.matched = self.shorter[self.matched - 1];
        }
        self.matched += usize::from(text[self.matched] == byte);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// What is shown, piece by piece, and whether a text was found.
    fn shown(texts: &[&str], pieces: &[&str]) -> (Vec<String>, bool) {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        let mut stops = StopTexts::new(&texts);
        stops.begin_message();
        let (mut words, mut shown) = (String::new(), Vec::new());
        for piece in pieces {
            let before = words.len();
            stops.put_back(&mut words);
            let from = words.len();
            words.push_str(piece);
            let is_found = stops.check(&mut words, from);
            shown.push(words[before..].to_owned());
            if is_found {
                return (shown, true);
            }
        }
        let before = words.len();
        stops.finish(&mut words);
        shown.push(words[before..].to_owned());
        (shown, false)
    }

    /// The words up to the text that ends first.
    fn naive<'w>(texts: &[&str], words: &'w str) -> (&'w str, bool) {
        let first_word = blank_bytes(words);
        let ends = (0..=words.len()).filter(|end| words.is_char_boundary(*end));
        for end in ends {
            let is_found = |text: &&&str| {
                let from = if text.trim().is_empty() { first_word.min(end) } else { 0 };
                !text.is_empty() && words[from..end].ends_with(**text)
            };
            let found = texts.iter().filter(is_found);
            if let Some(length) = found.map(|text| text.len()).max() {
                return (&words[..end - length], true);
            }
        }
        (words, false)
    }

    /// Compares with the naive search at every cut into three pieces.
    #[track_caller]
    fn check(texts: &[&str], words: &str, expected: &str) {
        let (up_to, is_found) = naive(texts, words);
        assert_eq!(up_to, expected, "{texts:?} in {words:?}");
        let cuts = (0..=words.len()).filter(|at| words.is_char_boundary(*at));
        let cuts: Vec<usize> = cuts.collect();
        for (nth, &first) in cuts.iter().enumerate() {
            for &second in &cuts[nth..] {
                let pieces = [&words[..first], &words[first..second], &words[second..]];
                let (shown, found) = shown(texts, &pieces);
                assert_eq!((shown.concat().as_str(), found), (expected, is_found), "{pieces:?}");
            }
        }
    }

    #[test]
    fn words_end_before_the_text() {
        check(&["END"], "One. END of it.", "One. ");
        check(&["END"], "EN EEND END", "EN E");
        check(&["END"], "EN", "EN");
        check(&["\n\n"], "a\nb\n\nc", "a\nb");
        check(&["a"], "a", "");
        check(&["\n"], " \n\na\nb", " \n\na");
        check(&["\na"], "\na", "");
        check(&[" "], " \n ", " \n ");
        check(&["aab"], "aaaab", "aa");
        check(&["abab", "abc"], "ababc", "");
        check(&["é"], "caf\u{e9}s", "caf");
        check(&["ü"], "é", "é");
        check(&[], "END", "END");
        check(&[""], "END", "END");
    }

    #[test]
    fn of_several_texts_the_first_to_end_counts_and_of_those_the_longest() {
        check(&["bc", "abcd"], "xabcd", "xa");
        check(&["bc", "abc"], "xabc", "x");
        check(&["d", "b"], "abcd", "a");
    }

    #[test]
    fn the_text_is_known_until_the_next_message() {
        let texts = ["bc", "abc", "d"].map(str::to_owned);
        let mut stops = StopTexts::new(&texts);
        for (words, found) in [("xabc", Some("abc")), ("ab", None), ("xbc", Some("bc"))] {
            stops.begin_message();
            stops.check(&mut words.to_owned(), 0);
            assert_eq!(stops.found(), found, "{words}");
        }
    }

    #[test]
    fn only_what_may_be_a_beginning_is_held_back() {
        let pieces = ["a E", "N", "x", " EN", "D."];
        let (shown, is_found) = shown(&["END"], &pieces);
        assert_eq!(shown, ["a ", "", "ENx", " ", ""]);
        assert!(is_found);
    }

    proptest! {
        #[test]
        fn it_agrees_with_the_naive_search(
            texts in prop::collection::vec("[abé ]{0,4}", 0..4),
            pieces in prop::collection::vec("[abcé ]{0,5}", 0..8),
        ) {
            let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
            let pieces: Vec<&str> = pieces.iter().map(String::as_str).collect();
            let words = pieces.concat();
            let (shown, is_found) = shown(&texts, &pieces);
            prop_assert_eq!((&*shown.concat(), is_found), naive(&texts, &words));
        }
    }
}
