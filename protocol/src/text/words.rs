//! Deserializes JSON strings without a copy where possible: serde borrows a `Cow`, but copies one
//! in an `Option`. For `#[serde(borrow, default, deserialize_with = "words::borrowed")]`.

use std::borrow::Cow;

use serde::{Deserialize, Deserializer};

#[derive(Deserialize)]
struct BorrowedString<'a>(#[serde(borrow)] Cow<'a, str>);

/// Deserializes a string or null.
///
/// # Errors
///
/// The value has another type.
pub fn borrowed<'de: 'a, 'a, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Cow<'a, str>>, D::Error> {
    Ok(Option::<BorrowedString<'a>>::deserialize(deserializer)?.map(|word| word.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Deserialize)]
    struct WordField<'a> {
        #[serde(borrow, default, deserialize_with = "borrowed")]
        word: Option<Cow<'a, str>>,
    }

    #[test]
    fn a_word_is_copied_only_if_it_holds_escapes() {
        let read = |text| serde_json::from_str::<WordField<'_>>(text).map(|said| said.word);
        assert!(matches!(read(r#"{"word":"a"}"#), Ok(Some(Cow::Borrowed("a")))));
        assert!(matches!(read(r#"{"word":"\u0061"}"#), Ok(Some(Cow::Owned(word))) if word == "a"));
        assert!(matches!((read(r#"{"word":null}"#), read("{}")), (Ok(None), Ok(None))));
        assert!(read(r#"{"word":1}"#).is_err());
    }
}
