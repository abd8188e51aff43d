//! Schemas of types that are serialized as text. Only for the API's description.

/// The schema of a type that is a string with this pattern.
macro_rules! text {
    ($name:ident, $pattern:expr) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .pattern(Some($pattern))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use text;

/// The schema of a type that is one of several words. Omits words that begin with `runtime.`,
/// which are never shown.
macro_rules! words {
    ($name:ident) => {
        impl utoipa::PartialSchema for $name {
            fn schema() -> utoipa::openapi::RefOr<utoipa::openapi::schema::Schema> {
                let words = Self::ALL.iter().map(|word| word.as_str());
                utoipa::openapi::schema::ObjectBuilder::new()
                    .schema_type(utoipa::openapi::schema::Type::String)
                    .enum_values(Some(words.filter(|word| !word.starts_with("runtime."))))
                    .into()
            }
        }

        impl utoipa::ToSchema for $name {}
    };
}
pub(crate) use words;

use crate::bytes64::Bytes64;
use crate::ids::EventId;
use crate::time::Timestamp;

text!(Timestamp, r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00$");
text!(EventId, "^ev_[0-9a-f]{12}$");
text!(Bytes64, "^[A-Za-z0-9+/]*=*$");
