//! Categories (MPI-5.0 section 15.3.9).

use super::checks::{Result, at};
use super::outputs::found;
use oxmpi_core::tool::categories::Category;
use std::ffi::c_int;

const UPDATE_NUMBER: c_int = 1;

/// Test of this module: tests/c/mpit_categories.c.
pub(crate) fn t_category_get_num() -> Result<c_int> {
    Ok(Category::ALL.len() as c_int)
}

type CategoryInfo = (&'static str, &'static str, c_int, c_int, c_int);

pub(crate) fn t_category_get_info(cat_index: c_int) -> Result<CategoryInfo> {
    let category = at(&Category::ALL, cat_index)?;
    Ok((
        category.name(),
        category.help(),
        category.params().len() as c_int,
        category.pvars().len() as c_int,
        category.categories().len() as c_int,
    ))
}

pub(crate) fn t_category_get_num_events(cat_index: c_int) -> Result<c_int> {
    Ok(at(&Category::ALL, cat_index)?.events().len() as c_int)
}

pub(crate) fn t_category_get_index(name: &str) -> Result<c_int> {
    found(Category::ALL.iter().position(|category| category.name() == name))
}

pub(crate) fn t_category_get_cvars(cat_index: c_int) -> Result<Vec<usize>> {
    Ok(at(&Category::ALL, cat_index)?.params())
}

pub(crate) fn t_category_get_pvars(cat_index: c_int) -> Result<Vec<usize>> {
    Ok(at(&Category::ALL, cat_index)?.pvars())
}

pub(crate) fn t_category_get_events(cat_index: c_int) -> Result<Vec<usize>> {
    Ok(at(&Category::ALL, cat_index)?.events())
}

pub(crate) fn t_category_get_categories(cat_index: c_int) -> Result<Vec<usize>> {
    let inside = at(&Category::ALL, cat_index)?.categories();
    Ok(inside.iter().map(|category| *category as usize).collect())
}

/// The categories never change.
pub(crate) fn t_category_changed() -> Result<c_int> {
    Ok(UPDATE_NUMBER)
}
