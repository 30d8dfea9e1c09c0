//! Serves the certificates that consumers with trust rules fetch.

use std::collections::BTreeMap;

use ndn_client::{Endpoint, Registration, Request};
use ndn_packet::Name;
use ndn_security::Certificate;

use super::failure::{Failure, Outcome};
use super::output;

/// Serves these certificates, by their names and by those of their keys.
pub(super) async fn serve(
    endpoint: &Endpoint,
    certificates: Vec<Certificate>,
) -> Outcome<Vec<Registration>> {
    let mut by_key: BTreeMap<Name, Vec<Certificate>> = BTreeMap::new();
    for certificate in certificates {
        by_key.entry(certificate.key_name().to_name()).or_default().push(certificate);
    }
    let mut registrations = Vec::new();
    for (key, certificates) in by_key {
        let answer = move |request: Request| {
            let interest = request.interest();
            let matches = |certificate: &&Certificate| {
                certificate.name() == interest.name()
                    || (interest.can_be_prefix() && certificate.name().starts_with(interest.name()))
            };
            if let Some(certificate) = certificates.iter().find(matches) {
                request.answer(certificate.wire());
            }
        };
        registrations.push(endpoint.produce(&key, answer).await.map_err(Failure::from)?);
    }
    Ok(registrations)
}

/// Serves the certificates of the signer. One that the forwarder does not let us serve is a note.
pub(super) async fn serve_of_signer(
    endpoint: &Endpoint,
    certificates: Vec<Certificate>,
) -> Vec<Registration> {
    let mut registrations = Vec::new();
    for certificate in certificates {
        let name = certificate.name().to_name();
        match serve(endpoint, vec![certificate]).await {
            Ok(served) => registrations.extend(served),
            Err(failure) => output::note(&format_args!(
                "namewire: consumers with trust rules need the certificate {name}, which cannot be served from here: \
                 {failure}"
            )),
        }
    }
    registrations
}

/// Those whose keys have no certificate among `others`.
pub(super) fn without_keys_of(
    mut certificates: Vec<Certificate>,
    others: &[Certificate],
) -> Vec<Certificate> {
    certificates.retain(|one| others.iter().all(|other| other.key_name() != one.key_name()));
    certificates
}
