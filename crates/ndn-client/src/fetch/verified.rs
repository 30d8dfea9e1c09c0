//! Single Data with verification: an answer that fails is requested again, because a wrong cached
//! packet may soon be gone.

use std::time::Duration;

use ndn_security::VerifyError;
use ndn_security::trust::TrustError;

use super::FetchOptions;
use crate::express::{ExpressError, InterestRequest};
use crate::handle::Handle;
use crate::pending::ReceivedData;

/// Maximum number of verification failures.
const REFUSED_MAX: u32 = 3;
/// Maximum pause before the next request.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Whether the failed verification needed too many certificates to be repeated.
fn is_costly(refusal: &ExpressError) -> bool {
    let ExpressError::Verification { reason: VerifyError::Untrusted(reason), .. } = refusal else {
        return false;
    };
    matches!(**reason, TrustError::TooLong { .. })
}

/// Expresses an Interest and verifies its answer according to `options`. After a failure it is
/// sent again with MustBeFresh, a few times: when the FreshnessPeriod of the answer is over, or
/// after a second, so that caches with the wrong packet do not answer. `request` has `timeout`
/// for all of that.
///
/// # Errors
/// `Verification` for the first answer, if no other verifies; otherwise as [`Handle::express`].
pub(crate) async fn express_verified(
    handle: &Handle,
    request: InterestRequest,
    timeout: Duration,
    options: &FetchOptions,
) -> Result<ReceivedData, ExpressError> {
    let deadline = tokio::time::Instant::now() + timeout;
    let (mut came, mut refusal) = check_answer(handle, &request, options).await?;
    let request = request.must_be_fresh(true);
    for _ in 1..REFUSED_MAX {
        if refusal.as_ref().is_none_or(is_costly) {
            break;
        }
        let again = async {
            let fresh = Duration::from_millis(came.data().freshness_ms().unwrap_or(0));
            tokio::time::sleep(fresh.min(PAUSE_MAX)).await;
            check_answer(handle, &request, options).await
        };
        // The lack of another answer is not a reason of its own.
        let Ok(Ok((other, judged))) = tokio::time::timeout_at(deadline, again).await else {
            break;
        };
        came = other;
        if judged.is_none() {
            refusal = None;
        }
    }
    refusal.map_or(Ok(came), Err)
}

/// The answer, and why it was rejected.
async fn check_answer(
    handle: &Handle,
    request: &InterestRequest,
    options: &FetchOptions,
) -> Result<(ReceivedData, Option<ExpressError>), ExpressError> {
    let received = handle.express(request).await?;
    let data = received.data();
    let checked = options.verification.check_fetching(handle, options.lifetime, &data).await;
    let refusal = checked.err().map(|reason| {
        let name = data.name().to_uri();
        ExpressError::Verification { name, reason }
    });
    Ok((received, refusal))
}
