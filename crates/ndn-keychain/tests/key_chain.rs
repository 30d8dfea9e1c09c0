//! The key chain over databases that were made in the test.
#![allow(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use ndn_keychain::{Access, KeyChain, KeyChainError, KeyId, Locations, NewDefault};
use ndn_packet::{Component, Data, DataBuilder, KeyLocator, Name};
use ndn_security::{
    EncryptionSeed, KeyError, KeyType, PrivateKey, SafeBag, sign_data, verify_data,
};
use rusqlite::Connection;

const NOW_MS: u64 = 1_800_000_000_123;
const SEED: EncryptionSeed = EncryptionSeed { salt: [1; 16], iv: [2; 16] };

fn name(uri: &str) -> Name {
    uri.parse().unwrap()
}

fn open(directory: &Path) -> KeyChain {
    KeyChain::open(Locations::in_directory(directory), Access::Write).unwrap()
}

fn generate(chain: &mut KeyChain, identity: &str, id: &[u8]) -> Name {
    let id = KeyId::Component(Component::generic(id));
    let identity = name(identity);
    let made =
        chain.generate(identity.as_ref(), KeyType::Ecdsa, id, NOW_MS, NewDefault::All).unwrap();
    made.key_name().to_name()
}

fn key_files(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory.join("ndnsec-key-file")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn generated_key_is_listed_and_signs() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = open(directory.path());
    let first = generate(&mut chain, "/a", b"1");
    let second = generate(&mut chain, "/a", b"2");
    generate(&mut chain, "/b", b"1");
    let keys = chain.keys(name("/a").as_ref()).unwrap();
    let listed: Vec<_> = keys.iter().map(|key| (&key.name, key.is_default)).collect();
    assert_eq!(listed, [(&first, false), (&second, true)]);
    assert_eq!(chain.default_identity().unwrap(), name("/b"));
    chain.set_default(name("/a").as_ref()).unwrap();
    chain.set_default(first.as_ref()).unwrap();

    // A new connection sees it, one that only reads as well.
    let chain = KeyChain::open(Locations::in_directory(directory.path()), Access::Read).unwrap();
    let identity = chain.default_identity().unwrap();
    assert_eq!(identity, name("/a"));
    let certificate = chain.certificate(identity.as_ref()).unwrap();
    assert_eq!(certificate.key_name().to_name(), first);
    assert_eq!(certificate.name().last().unwrap().as_version(), Some(NOW_MS));
    assert!(certificate.is_self_signed());
    for signing in [&identity, &first, &certificate.name().to_name()] {
        let signer = chain.signer(signing.as_ref()).unwrap();
        let packet = name("/x");
        let wire = sign_data(&DataBuilder::new(&packet), &signer).unwrap();
        let data = Data::parse(&wire).unwrap();
        verify_data(&data, certificate.public_key()).unwrap();
        let locator = data.signature_info().unwrap().key_locator;
        assert_eq!(locator, Some(KeyLocator::Name(certificate.name())));
    }
}

#[test]
fn private_keys_are_for_their_owner_alone() {
    let directory = tempfile::tempdir().unwrap();
    let home = directory.path().join("new/.ndn");
    generate(&mut open(&home), "/a", b"1");
    let files = key_files(&home);
    assert_eq!(files.len(), 1, "and nothing temporary: {files:?}");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&files[0]), 0o600);
    assert_eq!(mode(&home.join("ndnsec-key-file")), 0o700);
    assert_eq!(mode(&home), 0o700);
}

/// Rows as ndn-cxx writes them: a name in its TLV, the TPM's locator as a blob.
#[test]
fn key_chains_of_ndn_cxx_and_python_ndn_are_read() {
    let directory = tempfile::tempdir().unwrap();
    let from = directory.path().join("from");
    let mut chain = open(&from);
    let key = generate(&mut chain, "/a", b"1");
    let certificate = chain.certificate(key.as_ref()).unwrap();

    let to = directory.path().join("to");
    fs::create_dir_all(to.join("ndnsec-key-file")).unwrap();
    let database = Connection::open(to.join("pib.db")).unwrap();
    // Only the columns: older versions have fewer triggers.
    database
        .execute_batch(
            "CREATE TABLE tpmInfo(tpm_locator BLOB);
             CREATE TABLE identities(id INTEGER PRIMARY KEY, identity BLOB NOT NULL,
                is_default INTEGER DEFAULT 0);
             CREATE TABLE keys(id INTEGER PRIMARY KEY, identity_id INTEGER NOT NULL,
                key_name BLOB NOT NULL, key_bits BLOB NOT NULL, is_default INTEGER DEFAULT 0,
                FOREIGN KEY(identity_id) REFERENCES identities(id) ON DELETE CASCADE);
             CREATE TABLE certificates(id INTEGER PRIMARY KEY, key_id INTEGER NOT NULL,
                certificate_name BLOB NOT NULL, certificate_data BLOB NOT NULL,
                is_default INTEGER DEFAULT 0,
                FOREIGN KEY(key_id) REFERENCES keys(id) ON DELETE CASCADE);
             INSERT INTO identities VALUES(7, x'0703080161', 1);",
        )
        .unwrap();
    let wire = |name: ndn_packet::NameRef<'_>| {
        let value = name.value();
        [&[7, u8::try_from(value.len()).unwrap()][..], value].concat()
    };
    let locator = format!("tpm-file:{}", to.display());
    database.execute("INSERT INTO tpmInfo VALUES(?)", (locator.as_bytes(),)).unwrap();
    let spki = certificate.public_key().spki();
    database.execute("INSERT INTO keys VALUES(3,7,?,?,1)", (wire(key.as_ref()), spki)).unwrap();
    let row = (wire(certificate.name()), certificate.wire());
    database.execute("INSERT INTO certificates VALUES(9,3,?,?,1)", row).unwrap();
    let file = &key_files(&from)[0];
    fs::copy(file, to.join("ndnsec-key-file").join(file.file_name().unwrap())).unwrap();

    let mut chain = open(&to);
    assert_eq!(chain.default_identity().unwrap(), name("/a"));
    assert_eq!(chain.private_key(name("/a").as_ref()).unwrap().spki(), spki);
    chain.delete(name("/a").as_ref()).unwrap();
    for table in ["identities", "keys", "certificates"] {
        let query = format!("SELECT COUNT(*) FROM {table}");
        let count: i64 = database.query_row(&query, [], |row| row.get(0)).unwrap();
        assert_eq!(count, 0, "{table}");
    }
    assert!(key_files(&to).is_empty());
}

#[test]
fn safe_bag_exports_and_imports_a_key() {
    let directory = tempfile::tempdir().unwrap();
    let mut from = open(&directory.path().join("from"));
    let key = generate(&mut from, "/a", b"1");
    let text = from.export(name("/a").as_ref(), b"secret", &SEED).unwrap().to_text();
    let bag = SafeBag::from_text(&text).unwrap();

    let mut to = open(&directory.path().join("to"));
    let error = to.import(&bag, b"wrong").unwrap_err();
    assert!(matches!(error, KeyChainError::Key { source: KeyError::Decryption, .. }), "{error}");
    assert!(to.identities().unwrap().is_empty());
    to.import(&bag, b"secret").unwrap();
    assert_eq!(
        to.private_key(key.as_ref()).unwrap().spki(),
        from.private_key(key.as_ref()).unwrap().spki()
    );
    let error = to.import(&bag, b"secret").unwrap_err();
    assert!(matches!(error, KeyChainError::Exists(_)), "{error}");
    assert!(to.private_key(key.as_ref()).is_ok(), "and the key that was there is still there");
}

#[test]
fn requests_are_certified_and_installed() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = open(directory.path());
    let root = generate(&mut chain, "/root", b"1");
    let key = generate(&mut chain, "/root/site", b"1");
    let request = chain.request(key.as_ref(), NOW_MS).unwrap();
    assert!(request.name().to_uri().contains("/cert-request/"), "{}", request.name());
    let options = ndn_security::CertificateOptions {
        issuer_id: Component::generic(b"root"),
        version: 5,
        not_before_unix_s: 0,
        not_after_unix_s: 10,
        description: &[],
    };
    let issue = |public| {
        let signer = chain.signer(root.as_ref()).unwrap();
        ndn_security::Certificate::issue(key.as_ref(), public, &options, &signer).unwrap()
    };
    let issued = issue(request.public_key());
    let other = PrivateKey::generate(KeyType::Ecdsa).unwrap().public_key().unwrap();
    let foreign = issue(&other);
    chain.install(&issued, NewDefault::All).unwrap();
    assert_eq!(chain.certificate(key.as_ref()).unwrap().name(), issued.name());
    assert_eq!(chain.certificates(key.as_ref()).unwrap().len(), 2);
    let error = chain.install(&foreign, NewDefault::All).unwrap_err().to_string();
    assert!(error.contains("is not that of /root/site/KEY/1"), "{error}");
    chain.delete(issued.name()).unwrap();
    assert_eq!(chain.certificates(key.as_ref()).unwrap().len(), 1);
    assert!(chain.private_key(key.as_ref()).is_ok());
    let unknown = chain.delete(issued.name()).unwrap_err();
    assert!(matches!(unknown, KeyChainError::NotFound(_)), "{unknown}");
}

#[test]
fn error_names_the_missing_or_wrong_item() {
    let directory = tempfile::tempdir().unwrap();
    let locations = Locations::in_directory(directory.path());
    let error = KeyChain::open(locations.clone(), Access::Read).unwrap_err();
    assert!(matches!(error, KeyChainError::NoKeyChain(_)), "{error}");
    assert!(!locations.pib.exists(), "reading makes nothing");

    let mut chain = open(directory.path());
    let error = chain.default_identity().unwrap_err();
    assert!(matches!(error, KeyChainError::NoDefaultIdentity), "{error}");
    let first = generate(&mut chain, "/a", b"1");
    let files = key_files(directory.path());
    let id = KeyId::Component(Component::generic(b"1"));
    let identity = name("/a");
    let again = chain.generate(identity.as_ref(), KeyType::Ecdsa, id, NOW_MS, NewDefault::All);
    assert!(matches!(again, Err(KeyChainError::Exists(_))), "{again:?}");
    let other = PrivateKey::generate(KeyType::Ecdsa).unwrap().to_key_file_text().unwrap();
    fs::write(&files[0], other.as_bytes()).unwrap();
    let error = chain.signer(first.as_ref()).unwrap_err().to_string();
    assert!(error.contains("does not belong to /a/KEY/1"), "{error}");
    fs::write(&files[0], "nonsense!").unwrap();
    let error = chain.signer(first.as_ref()).unwrap_err().to_string();
    assert!(error.starts_with(files[0].to_str().unwrap()), "{error}");
    fs::remove_file(&files[0]).unwrap();
    let error = chain.signer(first.as_ref()).unwrap_err().to_string();
    assert!(error.contains("is missing") && error.contains(".privkey"), "{error}");

    let elsewhere = Locations::in_directory(Path::new("/elsewhere"));
    let moved = Locations { pib: locations.pib.clone(), ..elsewhere };
    let error = KeyChain::open(moved, Access::Write).unwrap_err();
    assert!(matches!(error, KeyChainError::TpmMismatch { .. }), "{error}");
    assert_eq!(chain.identities().unwrap().len(), 1, "and nothing was emptied");

    fs::write(&locations.pib, "this is no database, but it is long enough to be taken for one")
        .unwrap();
    for access in [Access::Read, Access::Write] {
        let error = KeyChain::open(locations.clone(), access).unwrap_err();
        assert!(matches!(error, KeyChainError::Invalid(_)), "{error}");
        assert!(error.to_string().starts_with(locations.pib.to_str().unwrap()), "{error}");
    }
    fs::remove_file(&locations.pib).unwrap();
    Connection::open(&locations.pib).unwrap().execute_batch("CREATE TABLE other(a)").unwrap();
    let error = KeyChain::open(locations.clone(), Access::Read).unwrap_err();
    assert!(matches!(error, KeyChainError::Invalid(_)), "{error}");
    let below_a_file = locations.pib.join("deeper");
    let error = KeyChain::open(Locations::in_directory(&below_a_file), Access::Write).unwrap_err();
    assert!(matches!(error, KeyChainError::File { .. }), "{error}");
}

#[test]
fn database_locked_by_another_program_is_reported() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = open(directory.path());
    generate(&mut chain, "/a", b"1");
    let other = Connection::open(directory.path().join("pib.db")).unwrap();
    other.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let id = KeyId::Component(Component::generic(b"2"));
    let identity = name("/a");
    let locked = chain.generate(identity.as_ref(), KeyType::Ecdsa, id, NOW_MS, NewDefault::All);
    assert!(matches!(locked, Err(KeyChainError::Locked(_))), "{locked:?}");
    assert_eq!(key_files(directory.path()).len(), 1, "the new key's file is gone");
}

/// SQLite refuses for root as well if the database itself says so.
#[test]
fn unwritable_key_chain_is_reported_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    let mut chain = open(directory.path());
    generate(&mut chain, "/a", b"1");
    drop(chain);
    let read = Locations::in_directory(directory.path());
    let mut chain = KeyChain::open(read, Access::Read).unwrap();
    let id = KeyId::Component(Component::generic(b"2"));
    let identity = name("/a");
    let refused = chain.generate(identity.as_ref(), KeyType::Ecdsa, id, NOW_MS, NewDefault::All);
    assert!(matches!(refused, Err(KeyChainError::ReadOnly(_))), "{refused:?}");
    let deleted = chain.delete(identity.as_ref());
    assert!(matches!(deleted, Err(KeyChainError::ReadOnly(_))), "{deleted:?}");
    assert_eq!(key_files(directory.path()).len(), 1);
}

/// SQLite has one code for all that keeps a file from being opened.
#[test]
fn only_permission_errors_are_reported_as_missing_rights() {
    let directory = tempfile::tempdir().unwrap();
    let locations = Locations::in_directory(directory.path());
    fs::create_dir(directory.path().join("pib.db")).unwrap();
    for access in [Access::Read, Access::Write] {
        let error = KeyChain::open(locations.clone(), access).unwrap_err();
        assert!(matches!(error, KeyChainError::Database { .. }), "{error}");
        assert!(error.to_string().contains("pib.db: "), "{error}");
    }
}
