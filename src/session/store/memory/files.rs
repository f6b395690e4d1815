//! The files of all sessions, limited in bytes.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;

use crate::limits::session as limits;
use crate::session::store::Artifact;

/// See the module docs.
///
/// ```text
///   id ──────> file        age ──> id, of all sessions
///   session ─> ages of its files, the oldest first
/// ```
#[derive(Debug, Default)]
pub(super) struct Files {
    by_id: HashMap<Arc<str>, File>,
    by_age: BTreeMap<Age, Arc<str>>,
    by_session: HashMap<Arc<str>, OfSession>,
    last_age: Age,
    bytes: usize,
}

/// Increases with every file.
type Age = u64;

#[derive(Debug)]
struct File {
    session: Arc<str>,
    artifact: Artifact,
}

#[derive(Debug, Default)]
struct OfSession {
    ages: VecDeque<Age>,
    bytes: usize,
}

impl Files {
    /// Keeps a file, and returns those that make room for it: the oldest of the session, then the
    /// oldest of all.
    pub(super) fn keep(
        &mut self,
        session: &Arc<str>,
        artifact: Artifact,
        bytes_max: usize,
    ) -> Vec<Artifact> {
        self.last_age += 1;
        let (id, age): (Arc<str>, Age) = (artifact.id.as_str().into(), self.last_age);
        let bytes = cost(&artifact);
        self.bytes += bytes;
        let of_session = self.by_session.entry(Arc::clone(session)).or_default();
        of_session.bytes += bytes;
        of_session.ages.push_back(age);
        self.by_age.insert(age, Arc::clone(&id));
        self.by_id.insert(id, File { session: Arc::clone(session), artifact });
        let mut gone = Vec::new();
        while self.by_session.get(session).is_some_and(|it| it.bytes > limits::ARTIFACT_BYTES_MAX) {
            gone.extend(self.remove_oldest(session));
        }
        while self.bytes > bytes_max {
            let Some((_, id)) = self.by_age.first_key_value() else { break };
            let Some(file) = self.by_id.get(id) else { break };
            let session = Arc::clone(&file.session);
            gone.extend(self.remove_oldest(&session));
        }
        gone
    }

    pub(super) fn get(&self, id: &str) -> Option<&Artifact> {
        self.by_id.get(id).map(|file| &file.artifact)
    }

    /// The session whose tool has returned this file.
    pub(super) fn session_of(&self, id: &str) -> Option<&str> {
        self.by_id.get(id).map(|file| &*file.session)
    }

    /// Those of a session, the oldest first.
    pub(super) fn of_session(&self, session: &str) -> impl Iterator<Item = &Artifact> {
        let ages = self.by_session.get(session).into_iter().flat_map(|it| &it.ages);
        ages.filter_map(|age| self.get(self.by_age.get(age)?))
    }

    /// The memory they take.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Removes the files of a session.
    pub(super) fn forget(&mut self, session: &str) {
        while self.by_session.contains_key(session) {
            self.remove_oldest(session);
        }
    }

    fn remove_oldest(&mut self, session: &str) -> Option<Artifact> {
        let of_session = self.by_session.get_mut(session)?;
        let age = of_session.ages.pop_front()?;
        let id = self.by_age.remove(&age)?;
        let File { artifact, .. } = self.by_id.remove(&id)?;
        let bytes = cost(&artifact);
        of_session.bytes -= bytes;
        self.bytes -= bytes;
        if of_session.ages.is_empty() {
            self.by_session.remove(session);
        }
        Some(artifact)
    }
}

/// The memory that a file takes, with its entries.
fn cost(artifact: &Artifact) -> usize {
    let Artifact { owner, id, name, mime_type, bytes } = artifact;
    let name = name.as_ref().map_or(0, String::len);
    let texts = owner.len() + 2 * id.len() + mime_type.len() + name;
    bytes.len() + texts + 2 * size_of::<File>()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn artifact(id: usize, bytes: usize) -> Artifact {
        Artifact {
            owner: "alice".to_owned(),
            id: format!("{id:032}"),
            name: None,
            mime_type: "image/png".to_owned(),
            bytes: vec![0; bytes].into(),
        }
    }

    /// How long a file may be so that `count` of them fit into `room`.
    fn length(room: usize, count: usize) -> usize {
        room / count - cost(&artifact(0, 0))
    }

    fn has(files: &Files, id: usize) -> bool {
        files.get(&format!("{id:032}")).is_some()
    }

    #[test]
    fn a_sessions_oldest_files_make_room() {
        let mut files = Files::default();
        let fits = length(limits::ARTIFACT_BYTES_MAX, 4);
        files.keep(&"other".into(), artifact(9, fits), usize::MAX);
        for id in 0..4 {
            assert!(files.keep(&"s".into(), artifact(id, fits), usize::MAX).is_empty());
        }
        let gone = files.keep(&"s".into(), artifact(4, 1), usize::MAX);
        assert_eq!(gone, [artifact(0, fits)]);
        assert!(!has(&files, 0) && has(&files, 1) && has(&files, 4) && has(&files, 9));
    }

    #[test]
    fn the_oldest_files_of_all_make_room() {
        let mut files = Files::default();
        let all = 2 * cost(&artifact(0, 1000));
        files.keep(&"a".into(), artifact(0, 1000), all);
        assert!(files.keep(&"b".into(), artifact(1, 1000), all).is_empty());
        assert_eq!(files.bytes(), all);
        assert_eq!(files.keep(&"b".into(), artifact(2, 1000), all), [artifact(0, 1000)]);
        assert!(files.bytes() <= all);
    }

    #[test]
    fn a_forgotten_session_leaves_nothing() {
        let mut files = Files::default();
        files.keep(&"a".into(), artifact(0, 10), usize::MAX);
        files.keep(&"b".into(), artifact(1, 10), usize::MAX);
        files.forget("a");
        assert!(!has(&files, 0) && has(&files, 1));
        files.forget("b");
        assert_eq!((files.bytes(), files.by_age.len(), files.by_session.len()), (0, 0, 0));
    }
}
