//! Counters of the server.

ndn_types::counters! {
    /// Requests and connections. The thread of the server writes them.
    #[derive(Debug, Default)]
    pub struct HttpCounters, HttpValues {
        /// Connections accepted.
        connections: Monotone(Connections),
        /// Connections closed because the client sent or received too slowly, or something other than HTTP.
        connections_broken: Monotone(Connections),
        /// Requests received.
        requests: Monotone(Requests),
        /// Requests refused because their Host field names another host.
        refused_host: Monotone(Requests),
        /// Requests refused because of the origin of the page that sent them.
        refused_origin: Monotone(Requests),
        /// Requests refused because their token is wrong or has expired.
        refused_token: Monotone(Requests),
        /// Queries refused by GraphQL: malformed ones, unknown fields, wrong types, and those that are too deep or too large.
        refused_query: Monotone(Requests),
        /// Requests refused because there were too many in a second.
        refused_rate: Monotone(Requests),
        /// Requests refused because their body is too long.
        refused_length: Monotone(Requests),
        /// Requests refused for another reason: method, path, or a limit that is reached.
        refused_other: Monotone(Requests),
        /// Requests that the forwarder did not answer.
        unanswered: Monotone(Requests),
    }
}
