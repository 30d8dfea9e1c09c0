//! NDN packet format: TLV, Name, Interest, Data, NDNLPv2; borrowed views and builders.
#![forbid(unsafe_code)]
