//! The kinds of arguments, and the C type of each.

/// A kind of argument. The C type follows from the kind, the intent, and the form of the function.
#[derive(Debug)]
pub struct Kind {
    /// The word of the table.
    pub word: &'static str,
    /// The C type of one value in the plain form.
    pub plain: &'static str,
    /// The C type of one value in the large form (`MPI_X_c`).
    pub large: &'static str,
    /// The error class of a bad value; empty if every value is good.
    pub class: &'static str,
    /// The description of an argument that has no description of its own.
    pub about: &'static str,
}

macro_rules! kinds {
    ($($word:literal $plain:literal $large:literal $class:literal $about:literal;)*) => {
        /// All kinds.
        pub static KINDS: &[Kind] = &[$(Kind {
            word: $word,
            plain: $plain,
            large: $large,
            class: $class,
            about: $about,
        }),*];
    };
}

kinds! {
    // Numbers.
    "count" "int" "MPI_Count" "MPI_ERR_COUNT" "Number of elements";
    "number" "int" "int" "MPI_ERR_ARG" "Number of entries";
    "bytes" "int" "MPI_Count" "MPI_ERR_ARG" "Number of bytes";
    "integer" "int" "int" "" "An integer";
    "elements" "int" "MPI_Count" "" "Displacement in elements";
    "displacement" "int" "MPI_Aint" "" "Displacement";
    "extent" "MPI_Aint" "MPI_Count" "" "Displacement in bytes";
    "address" "MPI_Aint" "MPI_Aint" "" "Address or displacement in bytes";
    "offset" "MPI_Offset" "MPI_Offset" "MPI_ERR_ARG" "Offset in a file, in elementary datatypes";
    "large" "MPI_Count" "MPI_Count" "MPI_ERR_COUNT" "A number";
    "seconds" "double" "double" "" "Seconds";
    "flag" "int" "int" "" "Logical value: nonzero is true";
    "rank" "int" "int" "MPI_ERR_RANK" "Rank";
    "root" "int" "int" "MPI_ERR_ROOT" "Rank of the root";
    "tag" "int" "int" "MPI_ERR_TAG" "Tag of the message";
    "index" "int" "int" "MPI_ERR_ARG" "Index, from 0";
    "keyval" "int" "int" "MPI_ERR_KEYVAL" "Key of the attribute";
    "code" "int" "int" "MPI_ERR_ARG" "Error code";
    "one" "int" "int" "MPI_ERR_ARG" "One of the constants";
    "mask" "int" "int" "MPI_ERR_ARG" "Constants, combined by bitwise or";
    // Handles.
    "comm" "MPI_Comm" "MPI_Comm" "MPI_ERR_COMM" "Communicator";
    "group" "MPI_Group" "MPI_Group" "MPI_ERR_GROUP" "Group";
    "datatype" "MPI_Datatype" "MPI_Datatype" "MPI_ERR_TYPE" "Datatype of each element";
    "op" "MPI_Op" "MPI_Op" "MPI_ERR_OP" "Operation";
    "win" "MPI_Win" "MPI_Win" "MPI_ERR_WIN" "Window";
    "file" "MPI_File" "MPI_File" "MPI_ERR_FILE" "File";
    "info" "MPI_Info" "MPI_Info" "MPI_ERR_INFO" "Info object with hints";
    "errhandler" "MPI_Errhandler" "MPI_Errhandler" "MPI_ERR_ERRHANDLER" "Error handler";
    "request" "MPI_Request" "MPI_Request" "MPI_ERR_REQUEST" "Request";
    "message" "MPI_Message" "MPI_Message" "MPI_ERR_REQUEST" "Matched message";
    "session" "MPI_Session" "MPI_Session" "MPI_ERR_SESSION" "Session";
    "status" "MPI_Status" "MPI_Status" "MPI_ERR_ARG" "Status";
    // Handles of the tool interface.
    "t_enum" "MPI_T_enum" "MPI_T_enum" "MPI_T_ERR_INVALID_HANDLE" "Enumeration";
    "t_cvar" "MPI_T_cvar_handle" "MPI_T_cvar_handle" "MPI_T_ERR_INVALID_HANDLE"
        "Handle of a control variable";
    "t_pvar" "MPI_T_pvar_handle" "MPI_T_pvar_handle" "MPI_T_ERR_INVALID_HANDLE"
        "Handle of a performance variable";
    "t_session" "MPI_T_pvar_session" "MPI_T_pvar_session" "MPI_T_ERR_INVALID_SESSION"
        "Session of performance variables";
    "t_registration" "MPI_T_event_registration" "MPI_T_event_registration"
        "MPI_T_ERR_INVALID_HANDLE" "Registration for an event";
    "t_event" "MPI_T_event_instance" "MPI_T_event_instance" "MPI_T_ERR_INVALID_HANDLE"
        "Instance of an event";
    "t_safety" "MPI_T_cb_safety" "MPI_T_cb_safety" "MPI_T_ERR_INVALID"
        "Restrictions of a callback";
    "t_order" "MPI_T_source_order" "MPI_T_source_order" "" "Order of the events of a source";
    // Memory.
    "buffer" "void" "void" "MPI_ERR_BUFFER" "Elements in memory";
    "blocks" "void" "void" "MPI_ERR_BUFFER" "One block of elements for each process";
    "memory" "void" "void" "MPI_ERR_BUFFER" "Bytes in memory";
    "element" "void" "void" "MPI_ERR_BUFFER" "One element in memory";
    "place" "void" "void" "" "An address in memory";
    "pointer" "void" "void" "MPI_ERR_ARG" "Address of a pointer variable, in which the address is returned";
    "attribute" "void" "void" "" "Value of the attribute, an address";
    "state" "void" "void" "" "Passed to each call of the functions";
    "string" "char" "char" "MPI_ERR_ARG" "String";
    "strings" "char" "char" "MPI_ERR_ARG" "Strings";
    "callback" "" "" "MPI_ERR_ARG" "Function of the program";
}

impl Kind {
    /// The kind of this word.
    pub fn find(word: &str) -> Option<&'static Kind> {
        KINDS.iter().find(|kind| kind.word == word)
    }

    /// Whether an argument of the kind is an address even if it is an input.
    pub fn is_memory(&self) -> bool {
        matches!(self.plain, "void" | "char")
    }

    /// Whether the kind is an object with a handle.
    pub fn is_handle(&self) -> bool {
        self.plain.starts_with("MPI_")
            && !matches!(
                self.word,
                "extent" | "address" | "offset" | "large" | "status" | "t_safety" | "t_order"
            )
    }
}
