//! The declaration of requests and of the types of their results: name, types, help text.
//!
//! [`requests!`] declares the requests. From the declaration follow the message of the protocol, the operation of the
//! forwarder that answers it ([`Operations`](crate::Operations)), the method of the [client](crate::ControlClient), and
//! the reference page. [`results!`] declares structures of results, for the protocol and the page.

/// A declared request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestInfo {
    /// Its name in the protocol.
    pub method: &'static str,
    /// Its documentation, as sentences.
    pub help: &'static str,
    /// Its parameters.
    pub parameters: &'static [FieldInfo],
    /// The type of its result, in Rust; `None` if the connection carries something else afterwards.
    pub result: Option<&'static str>,
    /// The commands that send it.
    pub used_by: &'static str,
    /// Its execution is logged with the user: it changes the forwarder, or shows packets.
    pub is_audited: bool,
}

/// A declared structure of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultInfo {
    /// Its name.
    pub name: &'static str,
    /// Its documentation, as sentences.
    pub help: &'static str,
    /// Its fields.
    pub fields: &'static [FieldInfo],
}

/// A parameter of a request or a field of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FieldInfo {
    /// Its name.
    pub name: &'static str,
    /// Its type, in Rust.
    pub of: &'static str,
    /// Its meaning, as sentences.
    pub help: &'static str,
    /// The fields of its value stand in the place of the field.
    pub is_flat: bool,
}

/// Declares requests. Those of the second group are answered over time: their operation returns an
/// [`ResponseStream`](crate::streams::ResponseStream), and their methods of the client are written by hand.
macro_rules! requests {
    (
        answered {
            $(
                $(#[doc = $help:literal])+
                $method:literal $Request:ident => $call:ident $({ $(
                    $(#[doc = $field_help:literal])+
                    $(#[serde($($serde:tt)+)])?
                    $field:ident: $Field:ty,
                )+ })? -> $Result:ty, used by $used_by:literal $(, $audited:ident)?;
            )+
        }
        streamed {
            $(
                $(#[doc = $stream_help:literal])+
                $stream_method:literal $StreamRequest:ident => $stream_call:ident { $(
                    $(#[doc = $stream_field_help:literal])+
                    $(#[serde($($stream_serde:tt)+)])?
                    $stream_field:ident: $StreamField:ty,
                )+ } -> $Stream:ty $(as $StreamResult:ty)?, used by $stream_used_by:literal $(, $stream_audited:ident)?;
            )+
        }
    ) => {
        /// A request, as one line of JSON: `{"method": "log.set", "params": {"directives": "debug"}}`.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "method", content = "params", deny_unknown_fields)]
        pub(crate) enum Request {
            $(
                #[serde(rename = $method)]
                $Request $({ $( $(#[serde($($serde)+)])? $field: $Field, )+ })?,
            )+
            $(
                #[serde(rename = $stream_method)]
                $StreamRequest { $( $(#[serde($($stream_serde)+)])? $stream_field: $StreamField, )+ },
            )+
        }

        /// The declarations of all requests.
        pub const REQUESTS: &[$crate::declare::RequestInfo] = &[
            $( $crate::declare::RequestInfo {
                method: $method,
                help: concat!($($help),+).trim_ascii(),
                parameters: &[$($(
                    $crate::declare::field!($field: $Field, $($field_help)+ $(, $($serde)+)?),
                )+)?],
                result: Some(stringify!($Result)),
                used_by: $used_by,
                is_audited: $crate::declare::is_audited!($($audited)?),
            }, )+
            $( $crate::declare::RequestInfo {
                method: $stream_method,
                help: concat!($($stream_help),+).trim_ascii(),
                parameters: &[$(
                    $crate::declare::field!(
                        $stream_field: $StreamField, $($stream_field_help)+ $(, $($stream_serde)+)?
                    ),
                )+],
                result: $crate::declare::optional!($($StreamResult)?),
                used_by: $stream_used_by,
                is_audited: $crate::declare::is_audited!($($stream_audited)?),
            }, )+
        ];

        /// Operations of a running forwarder that NFD's management protocol does not have: those of the control socket.
        ///
        /// The calls may wait for the control thread and the workers, and must not be made on these threads. The texts of
        /// errors are reasons for a person.
        pub trait Operations: Send + Sync + 'static {
            /// The forwarder's clock.
            fn clock(&self) -> &ndn_sys::clock::Clock;

            /// Adds a receiver of the events of faces from now on. Requests have the stream of NFD's management protocol.
            ///
            /// # Errors
            /// Management is turned off, or the forwarder is stopping.
            fn watch_faces(
                &self,
                sink: $crate::EventSink<$crate::FaceEvent>,
            ) -> Result<(), String>;

            /// Adds a receiver of the events of routes and strategies from now on.
            ///
            /// # Errors
            /// Management is turned off, or the forwarder is stopping.
            fn watch_routing(
                &self,
                sink: $crate::EventSink<$crate::RoutingEvent>,
            ) -> Result<(), String>;

            /// The first items of a part of a table: one page, where a dataset of NFD's management protocol has the whole
            /// table.
            ///
            /// # Errors
            /// Management is turned off, or the forwarder is stopping.
            fn table_part(
                &self,
                part: ndn_management::TablePart,
                items_max: usize,
            ) -> Result<ndn_management::TableItems, String>;

            $(
                $(#[doc = $help])+
                ///
                /// # Errors
                /// The reason why there is no result.
                fn $call(&self $($(, $field: $Field)+)?) -> Result<$Result, String>;
            )+
            $(
                $(#[doc = $stream_help])+
                ///
                /// # Errors
                /// The reason why it cannot start.
                fn $stream_call(&self $(, $stream_field: $StreamField)+) -> Result<$Stream, String>;
            )+
        }

        impl Request {
            /// Returns its name in the protocol.
            const fn method(&self) -> &'static str {
                match self {
                    $( Self::$Request { .. } => $method, )+
                    $( Self::$StreamRequest { .. } => $stream_method, )+
                }
            }

            /// Executes the request on the forwarder.
            pub(crate) fn execute(self, operations: &dyn Operations) -> Result<ResponseBody, String> {
                match self {
                    $( Self::$Request $({ $($field),+ })? => {
                        ResponseBody::result(operations.$call($($($field),+)?)?)
                    } )+
                    $( Self::$StreamRequest { $($stream_field),+ } => {
                        let stream = operations.$stream_call($($stream_field),+)?;
                        Ok(ResponseBody::stream::<$crate::declare::stream_result!($($StreamResult)?)>(stream))
                    } )+
                }
            }
        }

        impl ControlClient {
            $(
                $(#[doc = $help])+
                ///
                /// # Errors
                /// The connection fails, the answer is malformed, or the forwarder refuses.
                pub fn $call(
                    &mut self $($(, $field: $Field)+)?
                ) -> Result<$Result, ControlError> {
                    self.call(&Request::$Request $({ $($field),+ })?)
                }
            )+
        }
    };
}

/// Declares structures of results, and `$RESULTS`, their declarations.
macro_rules! results {
    (
        $RESULTS:ident;
        $(
            $(#[doc = $help:literal])+
            $(#[derive($($derive:ident),+)])?
            pub struct $Result:ident {
                $(
                    $(#[doc = $field_help:literal])+
                    $(#[serde($($serde:tt)+)])?
                    pub $field:ident: $Field:ty,
                )+
            }
        )+
    ) => {
        $(
            $(#[doc = $help])+
            #[derive(Clone, $($($derive,)+)? Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
            pub struct $Result {
                $(
                    $(#[doc = $field_help])+
                    $(#[serde($($serde)+)])?
                    pub $field: $Field,
                )+
            }
        )+

        /// The declarations of structures of results.
        pub const $RESULTS: &[$crate::declare::ResultInfo] = &[$( $crate::declare::ResultInfo {
            name: stringify!($Result),
            help: concat!($($help),+).trim_ascii(),
            fields: &[$(
                $crate::declare::field!($field: $Field, $($field_help)+ $(, $($serde)+)?),
            )+],
        }, )+];
    };
}

macro_rules! field {
    ($field:ident: $Field:ty, $($help:literal)+ $(, $($serde:tt)+)?) => {
        $crate::declare::FieldInfo {
            name: stringify!($field),
            of: stringify!($Field),
            help: concat!($($help),+).trim_ascii(),
            is_flat: $crate::declare::is_flat!($($($serde)+)?),
        }
    };
}

/// Whether `flatten` is among the options of serde.
macro_rules! is_flat {
    () => {
        false
    };
    (flatten $($rest:tt)*) => {
        true
    };
    ($other:tt $($rest:tt)*) => {
        $crate::declare::is_flat!($($rest)*)
    };
}

/// The type of the result of a stream: none, or the declared one.
macro_rules! stream_result {
    () => {
        ()
    };
    ($Type:ty) => {
        $Type
    };
}

/// Whether the declaration of a request ends with `audited`.
macro_rules! is_audited {
    () => {
        false
    };
    (audited) => {
        true
    };
}

macro_rules! optional {
    () => {
        None
    };
    ($Type:ty) => {
        Some(stringify!($Type))
    };
}

pub(crate) use {field, is_audited, is_flat, optional, requests, results, stream_result};

#[cfg(test)]
mod tests {
    #[test]
    fn flat_fields_are_recognised_among_other_options() {
        let found = [
            is_flat!(flatten),
            is_flat!(flatten, with = "crate::values"),
            is_flat!(default, with = "crate::values", flatten),
            is_flat!(with = "flatten"),
            is_flat!(),
        ];
        assert_eq!(found, [true, true, true, false, false]);
    }
}
