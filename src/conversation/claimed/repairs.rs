//! What was wrong with a client's list of messages.

/// A fault of a list, which was repaired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Repair {
    /// Instructions after the conversation had begun. They were moved to the others.
    LateSystem,
    /// A message without content. It was dropped.
    EmptyMessage,
    /// Calls as blocks of HTML in an assistant's text. The blocks were removed.
    CallMarkup,
    /// A user's message right after another. The two were joined.
    SplitPrompt,
    /// An assistant's message before any of the user's. A stand-in is its prompt.
    NoPrompt,
    /// Arguments that are no JSON object. Their text was kept as a string.
    BrokenArguments,
    /// A call with the id of an earlier one. A result goes to the latest of them that has none.
    ReusedId,
    /// A second result of a call. It was dropped.
    DuplicateResult,
    /// A result with other messages between itself and its call. It was moved.
    LateResult,
    /// A call without a result. It counts as not run.
    MissingResult,
    /// A result without a call. Its words became the user's.
    StrayResult,
    /// No message says anything but instructions. A stand-in is the prompt.
    NoWords,
    /// Too many messages or calls. The oldest were left out.
    TooLong,
    /// A reference to a message whose image was not stored. A note took its place.
    LostImage,
}

impl Repair {
    /// All kinds.
    pub const ALL: [Self; 14] = [
        Self::LateSystem,
        Self::EmptyMessage,
        Self::CallMarkup,
        Self::SplitPrompt,
        Self::NoPrompt,
        Self::BrokenArguments,
        Self::ReusedId,
        Self::DuplicateResult,
        Self::LateResult,
        Self::MissingResult,
        Self::StrayResult,
        Self::NoWords,
        Self::TooLong,
        Self::LostImage,
    ];

    /// The kind as metrics spell it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::LateSystem => "late_system",
            Self::EmptyMessage => "empty_message",
            Self::CallMarkup => "call_markup",
            Self::SplitPrompt => "split_prompt",
            Self::NoPrompt => "no_prompt",
            Self::BrokenArguments => "broken_arguments",
            Self::ReusedId => "reused_id",
            Self::DuplicateResult => "duplicate_result",
            Self::LateResult => "late_result",
            Self::MissingResult => "missing_result",
            Self::StrayResult => "stray_result",
            Self::NoWords => "no_words",
            Self::TooLong => "too_long",
            Self::LostImage => "lost_image",
        }
    }
}

/// How often each fault occurred.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Repairs([u32; Repair::ALL.len()]);

impl Repairs {
    pub(crate) const fn count(&mut self, repair: Repair) {
        self.0[repair as usize] += 1;
    }

    /// How often this fault occurred.
    #[must_use]
    pub const fn of(&self, repair: Repair) -> u32 {
        self.0[repair as usize]
    }

    /// The faults that occurred, each with how often.
    pub fn iter(&self) -> impl Iterator<Item = (Repair, u32)> {
        let all = Repair::ALL.into_iter().map(|repair| (repair, self.of(repair)));
        all.filter(|(_, count)| *count > 0)
    }
}

impl std::ops::AddAssign for Repairs {
    fn add_assign(&mut self, other: Self) {
        for (mine, others) in self.0.iter_mut().zip(other.0) {
            *mine += others;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_own_place() {
        for (at, repair) in Repair::ALL.into_iter().enumerate() {
            assert_eq!(repair as usize, at);
        }
    }
}
