//! Requests of the control socket.

use ndn_dataplane::Command;
use ndn_management::Now;

use super::{Control, Cx, Service};
use crate::operator::OperatorRequest;
use crate::telemetry;

impl Control {
    /// Answers the pending requests.
    pub(super) fn serve_operator(&mut self, now: Now) {
        self.operator.waker.reset();
        while let Ok(request) = self.operator.requests.try_recv() {
            let request = match request {
                OperatorRequest::Capture(request) => request,
                OperatorRequest::Links(request) => {
                    let links =
                        telemetry::links(&self.faces, request.after, now.monotonic_ns, |face| {
                            face.interface().and_then(|name| self.interfaces.ethernet.driver(name))
                        });
                    // The requester may have gone, here and below.
                    let _ = request.answer.send(links);
                    continue;
                }
                OperatorRequest::WebTransport(answer) => {
                    let _ = answer.send(self.webtransport_status());
                    continue;
                }
                OperatorRequest::FaceLimit(answer) => {
                    let _ = answer.send(self.face_limit());
                    continue;
                }
                OperatorRequest::Memif(answer) => {
                    let _ = answer.send(self.memif_status());
                    continue;
                }
                OperatorRequest::WaitingFaces(name, answer) => {
                    let _ = answer.send(self.statics.waiting(now.monotonic_ns, name.as_ref()));
                    continue;
                }
                OperatorRequest::AddMemoryFace(options, answer) => {
                    self.add_memory_face(&options, answer);
                    continue;
                }
                OperatorRequest::Local(request) => {
                    self.handle_local_request(now, request);
                    continue;
                }
                OperatorRequest::Trace(is_on) => {
                    self.dataplane.send(Command::Trace(is_on));
                    continue;
                }
                OperatorRequest::Dispatch(request) => {
                    let Self { balance, config, clock, dataplane, state, faces, .. } = self;
                    let mut cx = Cx { now, config, clock, dataplane, state, faces };
                    balance.handle_event(&mut cx, request);
                    continue;
                }
            };
            let Self { captures, config, clock, dataplane, state, faces, .. } = self;
            captures.handle_event(&mut Cx { now, config, clock, dataplane, state, faces }, request);
        }
    }
}
