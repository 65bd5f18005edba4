//! When a change that librbd has answered is durable.

/// `RBD_FEATURE_JOURNALING`.
const FEATURE_JOURNALING: u64 = 1 << 6;

/// Whether an image writes through: an answered change is durable on all copies by itself.
///
/// An OSD answers a write once every copy that acts has committed it, and librbd passes that on
/// unless something of its own stands between: its cache (in memory, or persistent on the client),
/// or the journaling feature, whose answers are the journal's. What is not known counts as such.
/// `features` are the image's feature bits, `settings` librbd's options in force for the image.
pub(crate) fn decide_writes_through(
    features: Option<u64>,
    settings: Option<&[(String, String)]>,
) -> bool {
    let (Some(features), Some(settings)) = (features, settings) else { return false };
    let setting = |wanted: &str| {
        settings.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str())
    };
    features & FEATURE_JOURNALING == 0
        && setting("rbd_cache") == Some("false")
        // Absent before Ceph 16, as was that cache.
        && matches!(setting("rbd_persistent_cache_mode"), None | Some("" | "disabled"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_an_image_without_cache_and_journal_writes_through() {
        let cached = Some(&[("rbd_cache", "true")][..]);
        let plain = Some(&[("rbd_cache", "false")][..]);
        for (features, settings, expected) in [
            (Some(0x3d), plain, true),
            (
                Some(0x3d),
                Some(&[("rbd_cache", "false"), ("rbd_persistent_cache_mode", "disabled")][..]),
                true,
            ),
            (
                Some(0x3d),
                Some(&[("rbd_cache", "false"), ("rbd_persistent_cache_mode", "ssd")][..]),
                false,
            ),
            (Some(0x3d), cached, false),
            (Some(0x3d), Some(&[][..]), false),
            (Some(0x3d | FEATURE_JOURNALING), plain, false),
            (None, plain, false),
            (Some(0x3d), None, false),
        ] {
            let settings: Option<Vec<_>> = settings.map(|pairs: &[(&str, &str)]| {
                pairs
                    .iter()
                    .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                    .collect()
            });
            assert_eq!(
                decide_writes_through(features, settings.as_deref()),
                expected,
                "{settings:?}"
            );
        }
    }
}
