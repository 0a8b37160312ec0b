// The modules that the libraries for Fortran programs of other MPIs have too: their crates include
// this file, with constants and types of their own.

mod arguments;
mod by_hand;
mod c;
mod cells;
mod entries;
mod sections;
