//! Amounts of bytes as people write and read them: `256MiB`, `1.2 MiB`.

/// Why a text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SizeError {
    /// It has not the form.
    #[error("{0:?} is not a size")]
    Malformed(String),
    /// It has the form, but is more than can be counted.
    #[error("the size {0:?} is too large")]
    TooLarge(String),
}

impl SizeError {
    /// What would have been accepted, for a `hint:` line.
    pub fn hint(&self) -> &'static str {
        "a size is written `256MiB`, `1.5GiB`, `10KB` or, in bytes, `1024`"
    }
}

/// Reads `256MiB`, `1.5 GiB`, `10 KB`, `1024`, in upper or lower case. `KB` is 1000 bytes, `KiB`
/// and plain `K` are 1024. Fractions of a byte are dropped.
pub fn parse_size(text: &str) -> Result<u64, SizeError> {
    let shown = || text.chars().take(80).collect::<String>();
    let malformed = || SizeError::Malformed(shown());
    let too_large = || SizeError::TooLarge(shown());

    let trimmed = text.trim();
    let end = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
    let (number, unit) = trimmed.split_at(end);
    let factor: u64 = match unit.trim_start().to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "kb" => 1000,
        "mb" => 1000_u64.pow(2),
        "gb" => 1000_u64.pow(3),
        "tb" => 1000_u64.pow(4),
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        _ => return Err(malformed()),
    };
    let (whole, fraction) = match number.split_once('.') {
        None => (number, "0"),
        Some(_) if factor == 1 => return Err(malformed()),
        Some(parts) => parts,
    };
    let digits = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 9 {
        return Err(malformed());
    }
    let whole: u64 = whole.parse().map_err(|_| too_large())?;
    let scale = 10_u128.pow(fraction.len() as u32);
    let fraction: u128 = fraction.parse().map_err(|_| malformed())?;
    let part = fraction * u128::from(factor) / scale;
    u64::try_from(u128::from(whole) * u128::from(factor) + part).map_err(|_| too_large())
}

/// A size for people, with one decimal from a KiB up: `812 B`, `1.2 MiB`.
pub fn format_size(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let mut amount = bytes as f64 / 1024.0;
    let mut unit = 0;
    // From here on it would print as `1024.0`.
    while amount >= 1023.95 && unit + 1 < UNITS.len() {
        amount /= 1024.0;
        unit += 1;
    }
    format!("{amount:.1} {}", UNITS[unit])
}

/// A number as people read it: `62,158`.
pub fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [
            ("1024", 1024),
            ("0", 0),
            ("512 B", 512),
            ("10 KB", 10_000),
            ("10KiB", 10_240),
            ("256MiB", 256 << 20),
            ("256mib", 256 << 20),
            ("4M", 4 << 20),
            ("1.5 GiB", 3 << 29),
            ("2TB", 2_000_000_000_000),
        ] {
            assert_eq!(parse_size(text), Ok(bytes), "{text:?}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for bad in ["", "MiB", "256XB", "-1", "1.MiB", ".5MiB", "1.2.3MiB", "1.5", "1 2", "１MiB"]
        {
            assert!(matches!(parse_size(bad), Err(SizeError::Malformed(_))), "{bad:?}");
        }
        for bad in ["18446744073709551616", "99999999999TiB"] {
            assert!(matches!(parse_size(bad), Err(SizeError::TooLarge(_))), "{bad:?}");
        }
    }

    #[test]
    fn sizes_print_with_one_decimal() {
        for (bytes, text) in [
            (0, "0 B"),
            (812, "812 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1_258_291, "1.2 MiB"),
            ((1 << 20) - 1, "1.0 MiB"),
            (256 << 20, "256.0 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(format_size(bytes), text);
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics(text in "[0-9.kKmMgGiIbB \\PC]{0,40}") {
            let _ = parse_size(&text);
        }

        #[test]
        fn bytes_survive_text(bytes in any::<u64>()) {
            prop_assert_eq!(parse_size(&bytes.to_string()), Ok(bytes));
        }

        #[test]
        fn what_is_printed_is_about_right(bytes in 0_u64..1 << 49) {
            let read = parse_size(&format_size(bytes)).unwrap();
            prop_assert!(read.abs_diff(bytes) <= bytes / 19);
        }
    }

    #[test]
    fn numbers_are_readable() {
        for (number, text) in [(0, "0"), (999, "999"), (1000, "1,000"), (1_234_567, "1,234,567")] {
            assert_eq!(thousands(number), text);
        }
    }
}
