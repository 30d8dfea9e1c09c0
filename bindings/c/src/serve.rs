//! Services of programs in C: objects in memory, files, and answers to Interests.

use std::ffi::{CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use ndn_access::{AccessError, ErrorKind, OnRuntime, OwnConnection, keys};
use ndn_client::{Content, PublishOptions, PublishedObject, Registration, Request};
use ndn_files::{FileServer, Mount, RootOptions, ServerOptions};
use ndn_packet::{DataBuilder, NackReason, Name};
use ndn_security::Signer;
use tokio::sync::mpsc;

use crate::error::{EINVAL, Error, Failure, invalid};
use crate::types::{ServeOptions, copy_of};
use crate::{Context, name_of, object, run, text, uninterrupted};

/// Maximum number of Interests that wait for the function of a program; more are dropped, and consumers repeat them.
const INTERESTS_MAX: usize = 4096;

/// Something that is served.
#[derive(Debug)]
pub struct Service {
    kind: Kind,
    name: CString,
}

#[derive(Debug)]
enum Kind {
    Object(OnRuntime<PublishedObject>),
    Files(OnRuntime<FileServer>),
    Answers(OnRuntime<Registration>, Caller),
}

/// The thread that calls a program's function.
#[derive(Debug)]
struct Caller {
    ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Caller {
    /// The function is not called any more, once this has returned; on the thread of the function, once that returns.
    fn end(mut self) {
        self.ended.store(true, Ordering::Release);
        let Some(thread) = self.thread.take() else { return };
        if thread.thread().id() != std::thread::current().id() {
            let _ = thread.join();
        }
    }
}

/// An Interest that waits for the answer of a program.
pub struct Interest {
    request: Request,
    name: CString,
    signer: Arc<dyn Signer>,
    freshness: Duration,
    process: u32,
}

impl std::fmt::Debug for Interest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Interest").field("name", &self.name).finish_non_exhaustive()
    }
}

/// A program's function that answers Interests.
pub type AnswerFunction = unsafe extern "C" fn(*mut c_void, *mut Interest);

/// A program's function and its argument.
struct Function {
    answer: AnswerFunction,
    data: *mut c_void,
}

// SAFETY: the header states that the function is called on a thread of the library.
unsafe impl Send for Function {}

impl Function {
    fn call(&self, interest: Interest) {
        // SAFETY: the caller of `namewire_serve` guarantees that the function may be called until the service ends.
        unsafe { (self.answer)(self.data, Box::into_raw(Box::new(interest))) };
    }
}

/// Options of a service, read.
struct Serving {
    signer: Arc<dyn Signer>,
    freshness: Option<Duration>,
    segment_len: Option<usize>,
    manifest_directory: Option<std::path::PathBuf>,
}

impl Serving {
    /// # Safety
    /// `options` is null or points to a `struct namewire_serve_options` whose strings are null or end with a zero.
    unsafe fn of(options: *const ServeOptions) -> Result<Self, Failure> {
        // SAFETY: as the caller guarantees.
        let options = unsafe { copy_of(options) }?;
        // SAFETY: as the caller guarantees.
        let sign = unsafe { text(options.sign, "sign") }?;
        // SAFETY: as the caller guarantees.
        let directory = unsafe { text(options.manifest_directory, "the directory of manifests") }?;
        let signer = keys::signer(sign.unwrap_or("digest"));
        Ok(Self {
            signer: signer.map_err(|error| Failure::new(EINVAL, &error.to_string()))?,
            freshness: match options.freshness_ms {
                0 => None,
                milliseconds => Some(Duration::from_millis(milliseconds)),
            },
            segment_len: match options.segment_bytes {
                0 => None,
                bytes => Some(bytes),
            },
            manifest_directory: directory.map(Into::into),
        })
    }
}

fn service(kind: Kind, name: &Name) -> *mut Service {
    let name = CString::new(name.to_uri()).unwrap_or_default();
    Box::into_raw(Box::new(Service { kind, name }))
}

/// Publishes a version of an object.
///
/// # Safety
/// `context` was returned by [`crate::namewire_connect`]; `name` ends with a zero; `content` has `length` bytes; `options` is
/// null or points to a `struct namewire_serve_options`; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_publish(
    context: *const Context,
    name: *const c_char,
    content: *const c_void,
    length: usize,
    options: *const ServeOptions,
    error: *mut Error,
) -> *mut Service {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, ptr::null_mut(), || {
            let context = object(context, "context")?;
            let (name, serving) = (name_of(name)?, Serving::of(options)?);
            if length != 0 && (content.is_null() || isize::try_from(length).is_err()) {
                return Err(invalid("the content is NULL or too long").into());
            }
            let content = match length {
                0 => Vec::new(),
                _ => std::slice::from_raw_parts(content.cast::<u8>(), length).to_vec(),
            };
            let usual = PublishOptions::default();
            let options = PublishOptions {
                segment_len: serving.segment_len.unwrap_or(usual.segment_len),
                freshness: serving.freshness.unwrap_or(usual.freshness),
                signer: serving.signer,
                ..usual
            };
            let content = Content::Bytes(content.into());
            let publish = async |own: Arc<OwnConnection>| -> Result<_, AccessError> {
                Ok(own.endpoint().await?.publish(&name, content, &options).await?)
            };
            let published = context.blocking.start(&mut uninterrupted, publish)?;
            let versioned = published.value().versioned_name().clone();
            Ok(service(Kind::Object(published), &versioned))
        })
    }
}

/// Serves a file or a directory.
///
/// # Safety
/// As of [`namewire_publish`]; `path` ends with a zero.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_serve_path(
    context: *const Context,
    name: *const c_char,
    path: *const c_char,
    options: *const ServeOptions,
    error: *mut Error,
) -> *mut Service {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, ptr::null_mut(), || {
            let context = object(context, "context")?;
            let (name, serving) = (name_of(name)?, Serving::of(options)?);
            let path =
                Path::new(text(path, "the path")?.ok_or_else(|| invalid("the path is NULL"))?);
            let mount = match path.is_dir() {
                true => Mount::open(name.clone(), path, RootOptions::default()),
                false => Mount::open_file(name.clone(), path),
            };
            let mount = mount.map_err(|error| Failure::of_path(path, &error))?;
            let mount = Mount { segment_len: serving.segment_len, ..mount };
            let usual = ServerOptions::default();
            let options = ServerOptions {
                signer: serving.signer,
                freshness: serving.freshness.unwrap_or(usual.freshness),
                prepare_manifests: serving.manifest_directory.is_some(),
                manifest_directory: serving.manifest_directory,
                ..usual
            };
            let serve = async |own: Arc<OwnConnection>| -> Result<_, AccessError> {
                Ok(FileServer::start(own.endpoint().await?, vec![mount], &options).await?)
            };
            let server = context.blocking.start(&mut uninterrupted, serve)?;
            Ok(service(Kind::Files(server), &name))
        })
    }
}

/// Calls a function for every Interest below a prefix.
///
/// # Safety
/// As of [`namewire_publish`]; `answer` may be called with `data`, on another thread, until the service has ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_serve(
    context: *const Context,
    prefix: *const c_char,
    answer: Option<AnswerFunction>,
    data: *mut c_void,
    options: *const ServeOptions,
    error: *mut Error,
) -> *mut Service {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, ptr::null_mut(), || {
            let context = object(context, "context")?;
            let (prefix, serving) = (name_of(prefix)?, Serving::of(options)?);
            let answer = answer.ok_or_else(|| invalid("the function is NULL"))?;
            let freshness = serving.freshness.unwrap_or(PublishOptions::default().freshness);
            let (sender, mut receiver) = mpsc::channel::<Request>(INTERESTS_MAX);
            let handler = move |request| {
                let _ = sender.try_send(request);
            };
            let produce = async |own: Arc<OwnConnection>| -> Result<_, AccessError> {
                Ok(own.endpoint().await?.produce(&prefix, handler).await?)
            };
            let registration = context.blocking.start(&mut uninterrupted, produce)?;
            let (function, ended) = (Function { answer, data }, Arc::new(AtomicBool::new(false)));
            let is_ended = Arc::clone(&ended);
            let calls = move || {
                // The channel closes when the registration is dropped.
                while let Some(request) = receiver.blocking_recv() {
                    if is_ended.load(Ordering::Acquire) {
                        break;
                    }
                    let name = CString::new(request.name().to_uri()).unwrap_or_default();
                    let (signer, process) = (Arc::clone(&serving.signer), std::process::id());
                    function.call(Interest { request, name, signer, freshness, process });
                }
            };
            let thread = std::thread::Builder::new().name("answers".to_owned()).spawn(calls);
            let thread = thread.map_err(|error| Failure::of_thread(&error))?;
            let caller = Caller { ended, thread: Some(thread) };
            Ok(service(Kind::Answers(registration, caller), &prefix))
        })
    }
}

/// The prefix, or the name with version of a published object; null for null.
///
/// # Safety
/// `service` is null, or was returned by this library and has not ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_service_name(service: *const Service) -> *const c_char {
    // SAFETY: as the caller guarantees.
    unsafe { service.as_ref() }.map_or(ptr::null(), |service| service.name.as_ptr())
}

/// Ends a service, and removes its route.
///
/// # Safety
/// `service` is null, or was returned by this library and has not ended; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_unserve(service: *mut Service, error: *mut Error) -> c_int {
    if service.is_null() {
        return 0;
    }
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let service = Box::from_raw(service);
            match service.kind {
                Kind::Object(object) => {
                    object.end(async |object| Ok::<_, AccessError>(object.unpublish().await?))?;
                }
                Kind::Files(server) => {
                    server.end(async |server| Ok::<_, AccessError>(server.stop().await?))?;
                }
                Kind::Answers(registration, caller) => {
                    let end =
                        async |held: Registration| Ok::<_, AccessError>(held.unregister().await?);
                    let ended = registration.end(end);
                    // A process that was forked does not have the thread.
                    if ended
                        .as_ref()
                        .err()
                        .is_none_or(|error| error.kind() != ErrorKind::Disconnected)
                    {
                        caller.end();
                    }
                    ended?;
                }
            }
            Ok(0)
        })
    }
}

/// Name of an Interest; null for null.
///
/// # Safety
/// `interest` is null, or was passed to a program's function and is not answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_interest_name(interest: *const Interest) -> *const c_char {
    // SAFETY: as the caller guarantees.
    unsafe { interest.as_ref() }.map_or(ptr::null(), |interest| interest.name.as_ptr())
}

/// ApplicationParameters of an Interest, and their length; null if it has none.
///
/// # Safety
/// As of [`namewire_interest_name`]; `length` is null or points to a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_interest_parameters(
    interest: *const Interest,
    length: *mut usize,
) -> *const c_void {
    // SAFETY: as the caller guarantees.
    let (interest, length) = unsafe { (interest.as_ref(), length.as_mut()) };
    let parameters = interest.and_then(|interest| interest.request.interest().parameters());
    if let Some(length) = length {
        *length = parameters.map_or(0, <[u8]>::len);
    }
    parameters.map_or(ptr::null(), |parameters| parameters.as_ptr().cast())
}

/// Answers an Interest with Data, and ends it.
///
/// # Safety
/// `interest` was passed to a program's function and is not answered; `name` is null or ends with a zero; `content` has `length`
/// bytes; `error` as of all functions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_answer(
    interest: *mut Interest,
    name: *const c_char,
    content: *const c_void,
    length: usize,
    error: *mut Error,
) -> c_int {
    // SAFETY: as the caller guarantees.
    unsafe {
        run(error, -1, || {
            let interest = owned(interest)?;
            let name = match name.is_null() {
                true => interest.request.name().to_name(),
                false => name_of(name)?,
            };
            if length != 0 && (content.is_null() || isize::try_from(length).is_err()) {
                return Err(invalid("the content is NULL or too long").into());
            }
            let content = match length {
                0 => &[],
                _ => std::slice::from_raw_parts(content.cast::<u8>(), length),
            };
            let freshness = u64::try_from(interest.freshness.as_millis()).unwrap_or(u64::MAX);
            let data = DataBuilder::new(&name).content(content).freshness_ms(freshness);
            let answered = interest.request.answer_with(&data, &*interest.signer);
            answered
                .map_err(|error| Failure::new(EINVAL, &format!("{}: {error}", name.to_uri())))?;
            Ok(0)
        })
    }
}

/// Answers an Interest with a Nack, and ends it.
///
/// # Safety
/// `interest` is null, or was passed to a program's function and is not answered.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn namewire_nack(interest: *mut Interest) {
    if interest.is_null() {
        return;
    }
    // SAFETY: as the caller guarantees.
    unsafe {
        run(ptr::null_mut(), (), || {
            owned(interest)?.request.nack(NackReason::NO_ROUTE);
            Ok(())
        });
    }
}

/// Takes an Interest back from a program.
///
/// # Safety
/// `interest` is null, or was passed to a program's function and is not answered.
unsafe fn owned(interest: *mut Interest) -> Result<Box<Interest>, Failure> {
    if interest.is_null() {
        return Err(invalid("the Interest is NULL").into());
    }
    // SAFETY: as the caller guarantees.
    let interest = unsafe { Box::from_raw(interest) };
    if interest.process != std::process::id() {
        // Locks of the connection may be held by threads that are in the other process only.
        std::mem::forget(interest);
        return Err(Failure::forked("the Interest was received before this process was forked"));
    }
    Ok(interest)
}
