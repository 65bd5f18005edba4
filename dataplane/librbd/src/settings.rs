//! Texts that cross into C and back.

use std::ffi::CString;

use crate::error::RbdError;

/// `text` for C.
///
/// # Errors
/// [`RbdError::Text`] when it contains a NUL.
pub(crate) fn c_text(what: &'static str, text: &str) -> Result<CString, RbdError> {
    CString::new(text).map_err(|_| RbdError::Text { what })
}

/// A client's address as `rbd status` shows it: `10.1.0.5:0/123456`.
///
/// librados writes it as `v2:10.1.0.5:0/123456`, `any:...` or, with several, `[v2:...,v1:...]`,
/// which carry the same host and nonce; the first is taken. None for an address without a nonce
/// (not connected).
pub(crate) fn parse_client_address(listed: &str) -> Option<String> {
    let kinds = ["v1:", "v2:", "any:", "legacy:"];
    let untyped = |text: &'_ str| {
        kinds.iter().find_map(|kind| text.strip_prefix(kind)).map_or(text.len(), str::len)
    };
    // A bracket opens a list, or an address of IPv6.
    let listed = match listed.trim().strip_prefix('[') {
        Some(list) if untyped(list) < list.len() => list.trim_end_matches(']'),
        _ => listed.trim(),
    };
    let first = listed.split(',').next()?;
    let bare = first.get(first.len() - untyped(first)..)?;
    let (host, nonce) = bare.split_once('/')?;
    let is_address = host.contains(':') && nonce.parse::<u64>().is_ok_and(|nonce| nonce > 0);
    is_address.then(|| format!("{host}/{nonce}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_address_is_reduced_to_what_rbd_status_shows() {
        for (listed, expected) in [
            ("10.1.0.5:0/123456", Some("10.1.0.5:0/123456")),
            ("v2:10.1.0.5:0/123456", Some("10.1.0.5:0/123456")),
            ("any:10.1.0.5:0/123456", Some("10.1.0.5:0/123456")),
            ("[v2:10.1.0.5:0/7,v1:10.1.0.5:0/7]", Some("10.1.0.5:0/7")),
            ("[v2:10.1.0.5:0/7]", Some("10.1.0.5:0/7")),
            ("v2:[fd00::1]:0/7", Some("[fd00::1]:0/7")),
            ("[v2:[fd00::1]:0/7,v1:[fd00::1]:0/7]", Some("[fd00::1]:0/7")),
            ("[fd00::1]:0/7", Some("[fd00::1]:0/7")),
            ("-", None),
            (":/0", None),
            ("", None),
            ("10.1.0.5:0/0", None),
        ] {
            assert_eq!(parse_client_address(listed).as_deref(), expected, "{listed}");
        }
    }

    #[test]
    fn text_with_a_nul_is_refused() {
        assert!(c_text("name", "disk").is_ok());
        assert!(matches!(c_text("name", "a\0b"), Err(RbdError::Text { what: "name" })));
    }
}
