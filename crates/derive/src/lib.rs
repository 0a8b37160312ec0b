//! `#[derive(Element)]`: structs as elements of messages. Use it as `oxmpi::Element`. The derived
//! code names the members and takes their offsets from the compiler. So every representation is
//! correct, and padding is never read. Each member's type must itself be an element.
#![deny(missing_docs)]
#![forbid(unsafe_code)]

use proc_macro2::TokenStream;
use quote::{ToTokens, quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{Data, DeriveInput, Error, Field, GenericParam, Member, Result, Type, parse_quote};

/// Makes a struct an element of messages. The struct must be `Copy`, and all its members must be
/// elements. Type parameters must be elements too.
#[proc_macro_derive(Element)]
pub fn element(input: proc_macro::TokenStream) -> proc_macro::TokenStream {
    expand(input.into()).unwrap_or_else(Error::into_compile_error).into()
}

fn expand(input: TokenStream) -> Result<TokenStream> {
    let mut input: DeriveInput = syn::parse2(input)?;
    let fields = match &input.data {
        Data::Struct(data) => &data.fields,
        Data::Enum(data) => {
            let text = "an enum cannot be an element of a message: not every pattern of bits is one of its values; send a \
                        number instead and match it where it arrives";
            return Err(Error::new(data.enum_token.span(), text));
        }
        Data::Union(data) => {
            let text = "a union cannot be an element of a message: which of its bytes are initialised is not known";
            return Err(Error::new(data.union_token.span(), text));
        }
    };
    fields.iter().try_for_each(check)?;

    let names: Vec<Member> = fields.members().collect();
    let members: Vec<TokenStream> =
        names.iter().zip(fields).map(|(name, field)| member(name, &field.ty)).collect();
    for parameter in &mut input.generics.params {
        if let GenericParam::Type(parameter) = parameter {
            parameter.bounds.push(parse_quote!(::oxmpi::Element));
        }
    }
    let name = &input.ident;
    let (parameters, arguments, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        // SAFETY: these are all members of the struct, each an element, at the compiler's offsets.
        #[automatically_derived]
        unsafe impl #parameters ::oxmpi::Element for #name #arguments #bounds {
            const SHAPE: ::oxmpi::derive::ElementShape = ::oxmpi::derive::ElementShape::structure::<Self>(&[#(#members),*]);
        }

        // Does not compile if another macro has added members to the struct.
        const _: () = {
            #[allow(dead_code, clippy::all)]
            fn all #parameters (value: &#name #arguments) #bounds {
                let #name { #(#names: _),* } = value;
            }
        };
    })
}

/// With the span of the type, the compiler reports errors at the member's type.
fn member(name: &Member, ty: &Type) -> TokenStream {
    let of = quote_spanned!(ty.span()=> ::oxmpi::derive::Member::of::<#ty>);
    quote!(#of(::core::mem::offset_of!(Self, #name)))
}

/// Refuses member types that no program may use.
fn check(field: &Field) -> Result<()> {
    let what = match &field.ty {
        Type::Reference(_) => "a reference",
        Type::Ptr(_) => "a pointer",
        Type::FnPtr(_) => "a function",
        _ => return Ok(()),
    };
    let text = format!(
        "{what} (`{}`) cannot be a member of an element of a message: what it points to is not there on another rank",
        field.ty.to_token_stream()
    );
    Err(Error::new_spanned(&field.ty, text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(definition: TokenStream) -> String {
        expand(definition).unwrap_err().to_string()
    }

    #[test]
    fn types_that_are_no_elements_are_refused_with_a_reason() {
        let said = refusal(quote!(
            enum Colour {
                Red,
                Green,
            }
        ));
        assert!(
            said.starts_with("an enum cannot be an element of a message: not every pattern"),
            "{said}"
        );
        let said = refusal(quote!(
            union Bits {
                a: u32,
                b: f32,
            }
        ));
        assert!(said.starts_with("a union cannot be"), "{said}");
        let said = refusal(quote!(
            struct Name<'a> {
                text: &'a str,
            }
        ));
        assert!(said.starts_with("a reference (`& 'a str`) cannot be a member"), "{said}");
        assert!(
            refusal(quote!(
                struct P(*const u8);
            ))
            .starts_with("a pointer (`* const u8`)")
        );
        assert!(
            refusal(quote!(
                struct P(fn(u8) -> u8);
            ))
            .starts_with("a function (`")
        );
    }

    #[test]
    fn members_are_named_and_parameters_are_bound() {
        let made = expand(quote!(
            struct Pair<A, const N: usize>(A, [u8; N])
            where
                A: Clone;
        ))
        .unwrap();
        let made = made.to_string().replace(' ', "");
        for part in [
            "unsafeimpl<A:::oxmpi::Element,constN:usize>::oxmpi::ElementforPair<A,N>whereA:Clone",
            "Member::of::<A>(::core::mem::offset_of!(Self,0))",
            "Member::of::<[u8;N]>(::core::mem::offset_of!(Self,1))",
        ] {
            assert!(made.contains(part), "no '{part}' in {made}");
        }
        let empty = expand(quote!(
            struct Empty;
        ))
        .unwrap()
        .to_string()
        .replace(' ', "");
        assert!(empty.contains("structure::<Self>(&[])"), "{empty}");
    }
}
