//! `namewire cert`: certificates of the keys in ndn-cxx's key chain.

use std::io::Write;
use std::path::Path;

use clap::{ArgGroup, Args, Subcommand};
use ndn_keychain::{Access, NewDefault};
use ndn_packet::{Component, ComponentType, ValidityPeriod};
use ndn_security::{Certificate, CertificateError, CertificateOptions};
use serde_json::json;

use super::failure::{Failure, Outcome};
use super::input::{read_some, shown};
use super::key_chain::{IdentityArgument, failure, now_unix_ms, open};
use super::output;

const DAY_S: i64 = 86_400;

/// Request, issue and install certificates, as ndnsec does
#[derive(Subcommand, Debug)]
pub(super) enum Command {
    Request(RequestOptions),
    Sign(SignOptions),
    Install(InstallOptions),
    Dump(DumpOptions),
}

/// Print a certificate request for a key, in Base64, for the issuer
#[derive(Args, Debug)]
pub(super) struct RequestOptions {
    /// Identity or key, or `default`
    #[arg(default_value = "default")]
    name: IdentityArgument,
}

/// Issue a certificate for a request, and print it in Base64
///
/// The request must be signed by the key that it contains.
#[derive(Args, Debug)]
pub(super) struct SignOptions {
    /// The request in Base64, `-` for standard input
    #[arg(default_value = "-")]
    file: String,
    /// Identity, key or certificate that signs
    #[arg(long, short = 's', value_name = "NAME", default_value = "default")]
    identity: IdentityArgument,
    /// Issuer component of the certificate's name
    #[arg(long, short, value_name = "COMPONENT", default_value = "NA")]
    issuer: String,
    /// First second of validity, YYYYMMDDhhmmss in UTC [default: now]
    #[arg(long, short = 'S', value_parser = time, value_name = "TIME")]
    not_before: Option<i64>,
    /// Last second of validity, YYYYMMDDhhmmss in UTC [default: 365 days after the first]
    #[arg(long, short = 'E', value_parser = time, value_name = "TIME")]
    not_after: Option<i64>,
    /// Key and value of AdditionalDescription, separated by a space; may be repeated
    #[arg(long, short = 'I', value_name = "TEXT")]
    info: Vec<String>,
}

/// Install a certificate into the key chain
///
/// It becomes the default certificate, its key the default key and its identity the default identity, unless an option
/// limits this.
#[derive(Args, Debug)]
#[command(group = ArgGroup::new("default"))]
pub(super) struct InstallOptions {
    /// The certificate in Base64, `-` for standard input
    file: String,
    /// Do not change the default identity
    #[arg(long, short = 'I', group = "default")]
    identity_default: bool,
    /// Do not change the default identity and key
    #[arg(long, short = 'K', group = "default")]
    key_default: bool,
    /// Do not change any default
    #[arg(long, short = 'N', group = "default")]
    no_default: bool,
}

/// Print a certificate of the key chain or of a file
#[derive(Args, Debug)]
pub(super) struct DumpOptions {
    /// Identity, key or certificate, `default`, or a file with --file
    name: String,
    /// NAME is a file with the certificate in Base64, `-` for standard input
    #[arg(long, short)]
    file: bool,
    /// Print the contents in readable form instead of Base64
    #[arg(long)]
    pretty: bool,
    /// Print the contents as JSON
    #[arg(long)]
    json: bool,
}

pub(super) fn run(command: &Command) -> Outcome {
    match command {
        Command::Request(options) => {
            let chain = open(Access::Read)?;
            let name = options.name.resolve(&chain)?;
            print(&chain.request(name.as_ref(), now_unix_ms()).map_err(failure)?)
        }
        Command::Sign(options) => sign(options),
        Command::Install(options) => install(options),
        Command::Dump(options) => dump(options),
    }
}

fn sign(options: &SignOptions) -> Outcome {
    let shown = shown(Path::new(&options.file)).to_string();
    let request = certificate(&options.file, "a certificate request in Base64")?;
    let request = request.map_err(|error| {
        let error = error.to_string().replacen("the certificate", "the request", 1);
        Failure::input(&shown, error)
    })?;
    if !request.is_self_signed() {
        return Err(Failure::Unverified(format!(
            "{shown}: the request is not signed by the key that it certifies"
        )));
    }
    let mut issuer = Vec::new();
    let issuer_type = Component::parse_uri(&options.issuer, &mut issuer)
        .map_err(|error| Failure::Usage(format!("--issuer {}: {error}", options.issuer)))?;
    if issuer_type.is_digest() || issuer_type == ComponentType::KEYWORD {
        let issuer = &options.issuer;
        return Err(Failure::Usage(format!("--issuer {issuer}: it cannot name an issuer")));
    }
    let mut description = Vec::new();
    for info in &options.info {
        description.push(info.split_once(' ').ok_or_else(|| {
            Failure::Usage(format!("--info {info}: write a key, a space and the value"))
        })?);
    }
    let now_ms = now_unix_ms();
    let now_s = i64::try_from(now_ms / 1000).unwrap_or(0);
    let not_before_unix_s = options.not_before.unwrap_or(now_s);
    let certificate_options = CertificateOptions {
        issuer_id: Component::new(issuer_type, &issuer),
        version: now_ms,
        not_before_unix_s,
        not_after_unix_s: options.not_after.unwrap_or(not_before_unix_s + 365 * DAY_S),
        description: &description,
    };
    let signer = options.identity.signer()?;
    let public_key = request.public_key();
    let issued =
        Certificate::issue(request.key_name(), public_key, &certificate_options, signer.as_ref());
    print(&issued.map_err(|error| Failure::input(&shown, error))?)
}

fn install(options: &InstallOptions) -> Outcome {
    let certificate = read(&options.file)?;
    let default = match options {
        InstallOptions { no_default: true, .. } => NewDefault::None,
        InstallOptions { key_default: true, .. } => NewDefault::Key,
        InstallOptions { identity_default: true, .. } => NewDefault::Identity,
        InstallOptions { .. } => NewDefault::All,
    };
    open(Access::Write)?.install(&certificate, default).map_err(failure)?;
    eprintln!("installed {}", certificate.name());
    Ok(())
}

fn dump(options: &DumpOptions) -> Outcome {
    let certificate = if options.file {
        read(&options.name)?
    } else {
        let argument: IdentityArgument = options.name.parse().map_err(|error| {
            Failure::Usage(format!("{}: {error} (if it is a file, use --file)", options.name))
        })?;
        let chain = open(Access::Read)?;
        let name = argument.resolve(&chain)?;
        chain.certificate(name.as_ref()).map_err(failure)?
    };
    if !options.pretty && !options.json {
        return print(&certificate);
    }
    let time = |text: &[u8; 15]| String::from_utf8_lossy(text).into_owned();
    let (name, key_type) = (certificate.name().to_uri(), certificate.public_key().key_type());
    let first = time(&certificate.validity().not_before);
    let last = time(&certificate.validity().not_after);
    let issuer = certificate.issuer().map(|issuer| issuer.to_uri());
    let description = certificate.description();
    if options.json {
        let description: Vec<_> =
            description.iter().map(|(key, text)| json!({"key": key, "text": text})).collect();
        return Ok(output::print_json(&json!({
            "name": name, "key_type": key_type.to_string(), "not_before": first, "not_after": last,
            "issuer": issuer, "self_signed": certificate.is_self_signed(),
            "description": description,
        }))?);
    }
    let mut fields = vec![
        ("name", name),
        ("key", key_type.to_string()),
        ("valid from", first),
        ("valid until", last),
        ("signed by", issuer.unwrap_or_else(|| "nobody named".to_owned())),
    ];
    if certificate.is_self_signed() {
        fields.push(("self-signed", "yes".to_owned()));
    }
    fields.extend(description.into_iter().map(|(key, text)| ("says", format!("{key} {text}"))));
    Ok(output::print_fields(&fields)?)
}

fn read(file: &str) -> Outcome<Certificate> {
    let certificate = certificate(file, "a certificate in Base64")?;
    certificate.map_err(|error| Failure::input(shown(Path::new(file)), error))
}

/// The certificate, or certificate request, in a file.
fn certificate(file: &str, what: &str) -> Outcome<Result<Certificate, CertificateError>> {
    let input = read_some(file, what)?;
    Ok(Certificate::from_text(&String::from_utf8_lossy(&input)))
}

fn print(certificate: &Certificate) -> Outcome {
    Ok(std::io::stdout().lock().write_all(certificate.to_text().as_bytes())?)
}

/// Seconds since 1970 of `YYYYMMDDhhmmss`.
fn time(text: &str) -> Result<i64, String> {
    let wrong = || "write it as YYYYMMDDhhmmss, in UTC".to_owned();
    let (date, time) = text.split_at_checked(8).ok_or_else(wrong)?;
    let text = format!("{date}T{time}");
    let not_before: [u8; 15] = text.as_bytes().try_into().map_err(|_| wrong())?;
    let period = ValidityPeriod { not_before, not_after: not_before };
    period.not_before_unix_s().ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    #[test]
    fn times_have_the_format_of_ndnsec() {
        assert_eq!(super::time("19700102000001"), Ok(86_401));
        for wrong in ["", "19700102", "1970010200000", "19701302000001", "1970é10200000"] {
            assert!(super::time(wrong).is_err(), "{wrong}");
        }
    }
}
