//! Face = LinkService + Transport: Unix, TCP, UDP.
#![forbid(unsafe_code)]
