//! Reports of failures, without floods.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Receives a failure that an error number does not explain.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Time in which the same text is reported once.
const INTERVAL: Duration = Duration::from_secs(10);
/// Maximum number of texts that are reported in this time.
const TEXTS_MAX: usize = 20;

pub(crate) struct Reports {
    report: Report,
    recent: Mutex<HashMap<String, Instant>>,
}

impl Reports {
    pub(crate) fn new(report: Report) -> Self {
        Self { report, recent: Mutex::default() }
    }

    /// Reports `text`, unless it or too many others were reported a short time ago.
    pub(crate) fn report(&self, text: &str) {
        let now = Instant::now();
        {
            let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
            recent.retain(|_, at| now.duration_since(*at) < INTERVAL);
            if recent.contains_key(text) || recent.len() >= TEXTS_MAX {
                return;
            }
            recent.insert(text.to_owned(), now);
        }
        (self.report)(text);
    }
}

impl std::fmt::Debug for Reports {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reports").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn repeated_failures_are_reported_once_per_interval() {
        let texts = Arc::new(Mutex::new(Vec::new()));
        let kept = Arc::clone(&texts);
        let reports =
            Reports::new(Arc::new(move |text| kept.lock().unwrap().push(text.to_owned())));
        for _ in 0..3 {
            reports.report("one");
            reports.report("two");
        }
        assert_eq!(*texts.lock().unwrap(), ["one", "two"]);
        tokio::time::advance(INTERVAL).await;
        reports.report("two");
        assert_eq!(*texts.lock().unwrap(), ["one", "two", "two"]);
        for index in 0..2 * TEXTS_MAX {
            reports.report(&format!("text {index}"));
        }
        assert_eq!(texts.lock().unwrap().len(), 2 + TEXTS_MAX);
    }
}
