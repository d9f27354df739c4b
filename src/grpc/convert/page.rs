//! Pages of a list (AIP-158): a token says after which entry the next page begins, and of which list.

use sha2::{Digest as _, Sha256};
use tonic::Status;

use super::invalid;
use crate::grpc::status;

/// Entries of a page when the caller names none.
const SIZE_DEFAULT: usize = 50;
/// Entries of a page at most.
const SIZE_MAX: usize = 1_000;
/// Bytes of the digest in a token.
const DIGEST_BYTES: usize = 8;
/// Digest and key.
const TOKEN_BYTES: usize = DIGEST_BYTES + 12;

/// Where an entry stands in its list.
pub(in crate::grpc) type Key = (u64, u32);

/// One page of a list.
#[derive(Debug)]
pub(in crate::grpc) struct Page {
    size: usize,
    after: Option<Key>,
    list: Vec<u8>,
}

/// The page that a request wants. `list` names the list with everything that selects its entries: a token is good
/// for that list only.
pub(in crate::grpc) fn page(list: &[&str], size: i32, token: &str) -> Result<Page, Status> {
    let Ok(size) = usize::try_from(size) else {
        return Ok(invalid("page_size", format!("{size} is negative"))?);
    };
    let size = if size == 0 { SIZE_DEFAULT } else { size.min(SIZE_MAX) };
    let list: Vec<u8> = list.iter().flat_map(|part| part.bytes().chain([0])).collect();
    let after = if token.is_empty() {
        None
    } else {
        Some(read(&list, token).ok_or_else(status::invalid_page_token)?)
    };
    Ok(Page { size, after, list })
}

impl Page {
    /// The entries of this page, out of all in order of their keys, and the token of the next one.
    pub(in crate::grpc) fn cut<T>(&self, entries: Vec<T>, key: impl Fn(&T) -> Key) -> (Vec<T>, String) {
        let mut rest = entries.into_iter().filter(|entry| self.after.is_none_or(|after| key(entry) > after));
        let page: Vec<T> = rest.by_ref().take(self.size).collect();
        let next = match (rest.next(), page.last()) {
            (Some(_), Some(last)) => self.token(key(last)),
            _ => String::new(),
        };
        (page, next)
    }

    fn token(&self, key: Key) -> String {
        let key = encode(key);
        digest(&self.list, &key).iter().chain(&key).map(|byte| format!("{byte:02x}")).collect()
    }
}

fn encode((major, minor): Key) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..8].copy_from_slice(&major.to_be_bytes());
    bytes[8..].copy_from_slice(&minor.to_be_bytes());
    bytes
}

fn digest(list: &[u8], key: &[u8]) -> [u8; DIGEST_BYTES] {
    let whole = Sha256::new().chain_update(list).chain_update(key).finalize();
    let mut digest = [0; DIGEST_BYTES];
    digest.copy_from_slice(&whole[..DIGEST_BYTES]);
    digest
}

fn read(list: &[u8], token: &str) -> Option<Key> {
    if token.len() != 2 * TOKEN_BYTES || !token.is_ascii() {
        return None;
    }
    let bytes: Option<Vec<u8>> =
        (0..TOKEN_BYTES).map(|at| u8::from_str_radix(token.get(2 * at..2 * at + 2)?, 16).ok()).collect();
    let bytes = bytes?;
    let (found, key) = bytes.split_at(DIGEST_BYTES);
    if digest(list, key) != *found {
        return None;
    }
    let (major, minor) = key.split_at(8);
    Some((u64::from_be_bytes(major.try_into().ok()?), u32::from_be_bytes(minor.try_into().ok()?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_a_list_once_and_a_token_is_good_for_its_list_only() {
        let all: Vec<u32> = (0..7).collect();
        let mut token = String::new();
        let mut seen = Vec::new();
        loop {
            let page = page(&["list", "a"], 3, &token).unwrap();
            let (entries, next) = page.cut(all.clone(), |entry| (1, *entry));
            assert!(entries.len() <= 3);
            seen.extend(entries);
            if next.is_empty() {
                break;
            }
            token = next;
        }
        assert_eq!(seen, all);
        for (list, token) in
            [("b", token.as_str()), ("a", "junk"), ("a", &token[2..]), ("a", &"é".repeat(20))]
        {
            assert_eq!(page(&["list", list], 3, token).unwrap_err().code(), tonic::Code::InvalidArgument);
        }
        assert_eq!(page(&["list", "a"], -1, "").unwrap_err().code(), tonic::Code::InvalidArgument);
    }
}
