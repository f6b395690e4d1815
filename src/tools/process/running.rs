//! Whose programs have not ended. A call that is out of time or cancelled is over before its program, which may take
//! seconds to end.

use std::collections::HashMap;
use std::sync::Arc;

use tokio::sync::watch;
use tokio::time::timeout;

use crate::limits::process::END_WAIT;

/// How many programs run for the calls of each session. Copies share it.
#[derive(Debug, Clone, Default)]
pub(super) struct RunningPrograms {
    running: Arc<watch::Sender<HashMap<Arc<str>, usize>>>,
}

/// A program that runs for a call of this session. **Drop it when the program has ended**, with all that it has started.
#[derive(Debug)]
pub(super) struct RunningProgram {
    session: Arc<str>,
    programs: RunningPrograms,
}

impl RunningPrograms {
    /// A program begins.
    pub(super) fn begin(&self, session: Arc<str>) -> RunningProgram {
        self.running.send_modify(|running| *running.entry(Arc::clone(&session)).or_default() += 1);
        RunningProgram { session, programs: self.clone() }
    }

    /// Waits until no program of this session runs, for at most [`END_WAIT`].
    pub(super) async fn settled(&self, session: &str) {
        let mut running = self.running.subscribe();
        let _ = timeout(END_WAIT, running.wait_for(|running| !running.contains_key(session))).await;
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        self.programs.running.send_modify(|running| {
            let Some(programs) = running.get_mut(&self.session) else { return };
            *programs -= 1;
            if *programs == 0 {
                running.remove(&self.session);
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_session_is_settled_when_the_last_of_its_programs_has_ended() {
        let programs = RunningPrograms::default();
        let (first, second) = (programs.begin("a".into()), programs.begin("a".into()));
        let begun = Instant::now();
        programs.settled("b").await;
        drop(first);
        assert!(timeout(END_WAIT / 2, programs.settled("a")).await.is_err());
        drop(second);
        programs.settled("a").await;
        assert_eq!(begun.elapsed(), END_WAIT / 2);
        assert!(programs.running.borrow().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_program_that_cannot_be_ended_is_not_waited_for_any_longer() {
        let programs = RunningPrograms::default();
        let _running = programs.begin("a".into());
        let begun = Instant::now();
        programs.settled("a").await;
        assert_eq!(begun.elapsed(), END_WAIT);
    }
}
