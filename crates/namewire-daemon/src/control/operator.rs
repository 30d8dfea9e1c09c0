//! What the control socket asks for.

use ndn_dataplane::Command;
use ndn_sys::clock;
use ndn_table::Timestamp;

use super::Control;
use crate::operator::OperatorRequest;
use crate::{balance, telemetry};

impl Control {
    /// Answers what waits.
    pub(super) fn serve_operator(&mut self) {
        self.operator.waker.reset();
        while let Ok(request) = self.operator.requests.try_recv() {
            let request = match request {
                OperatorRequest::Capture(request) => request,
                OperatorRequest::Links(request) => {
                    let links = telemetry::links(&self.faces, request.after, |face| {
                        face.interface().and_then(|name| self.ethernet.driver(name))
                    });
                    // Whoever asked may be gone by now.
                    let _ = request.answer.send(links);
                    continue;
                }
                OperatorRequest::WebTransport(answer) => {
                    // Whoever asked may be gone by now.
                    let _ = answer.send(self.webtransport_status());
                    continue;
                }
                OperatorRequest::FaceLimit(answer) => {
                    // Whoever asked may be gone by now.
                    let _ = answer.send(self.face_limit());
                    continue;
                }
                OperatorRequest::LetIn(process, answer) => {
                    self.let_in.note(clock::now(), process);
                    // Whoever asked may be gone by now.
                    let _ = answer.send(self.face_limit());
                    continue;
                }
                OperatorRequest::Memif(answer) => {
                    // Whoever asked may be gone by now.
                    let _ = answer.send(self.memif_status());
                    continue;
                }
                OperatorRequest::WaitingFaces(name, answer) => {
                    // Whoever asked may be gone by now.
                    let _ = answer.send(self.statics.waiting(clock::now(), name.as_ref()));
                    continue;
                }
                OperatorRequest::Trace(is_on) => {
                    self.dataplane.send(Command::Trace(is_on));
                    continue;
                }
                OperatorRequest::Dispatch(request) => {
                    let now = Timestamp::from_nanos(clock::now());
                    let done = balance::serve(now, &mut self.dataplane, &request.action);
                    // Whoever asked may be gone by now.
                    let _ = request.answer.send(done);
                    continue;
                }
            };
            let result = self.captures.start(request.filter, &self.faces);
            if let Ok(Some(tap)) = result.as_ref().map(|_| self.captures.tap()) {
                self.is_tapped = true;
                self.dataplane.send(Command::SetTap(Some(tap)));
            }
            // Whoever asked may be gone by now.
            let _ = request.answer.send(result);
        }
    }
}
