/* Names of MPI-5.0 that the header of Open MPI lacks: the functions of its ABI for the integers of
 * handles, and the error class that libmpi.so.40 returns for a bad error handler. */
#define MPI_Comm_toint MPI_Comm_c2f
#define MPI_Comm_fromint MPI_Comm_f2c
#define MPI_Errhandler_toint MPI_Errhandler_c2f
#define MPI_Errhandler_fromint MPI_Errhandler_f2c
#define MPI_File_toint MPI_File_c2f
#define MPI_File_fromint MPI_File_f2c
#define MPI_Group_toint MPI_Group_c2f
#define MPI_Group_fromint MPI_Group_f2c
#define MPI_Info_toint MPI_Info_c2f
#define MPI_Info_fromint MPI_Info_f2c
#define MPI_Message_toint MPI_Message_c2f
#define MPI_Message_fromint MPI_Message_f2c
#define MPI_Op_toint MPI_Op_c2f
#define MPI_Op_fromint MPI_Op_f2c
#define MPI_Request_toint MPI_Request_c2f
#define MPI_Request_fromint MPI_Request_f2c
#define MPI_Session_toint MPI_Session_c2f
#define MPI_Session_fromint MPI_Session_f2c
#define MPI_Type_toint MPI_Type_c2f
#define MPI_Type_fromint MPI_Type_f2c
#define MPI_Win_toint MPI_Win_c2f
#define MPI_Win_fromint MPI_Win_f2c
#define MPI_ERR_ERRHANDLER MPI_ERR_ARG
