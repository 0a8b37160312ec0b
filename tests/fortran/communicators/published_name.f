! ranks: 2
! A service is found by its name.
      PROGRAM SERVIC
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, ME, CODE, CLASS
      CHARACTER*(MPI_MAX_PORT_NAME) PORT, FOUND
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      IF (ME .EQ. 0) THEN
         CALL MPI_OPEN_PORT(MPI_INFO_NULL, PORT, IERR)
         CALL MPI_PUBLISH_NAME('weather of today', MPI_INFO_NULL, PORT,
     &                         IERR)
      END IF
      CALL MPI_BCAST(PORT, MPI_MAX_PORT_NAME, MPI_CHARACTER, 0,
     &               MPI_COMM_WORLD, IERR)
      FOUND = 'nothing'
      CALL MPI_LOOKUP_NAME('weather of today   ', MPI_INFO_NULL, FOUND,
     &                     IERR)
      IF (FOUND .NE. PORT) STOP 1
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      IF (ME .EQ. 0) CALL MPI_UNPUBLISH_NAME('weather of today',
     &                          MPI_INFO_NULL, PORT, IERR)
      CALL MPI_BARRIER(MPI_COMM_WORLD, IERR)
      CALL MPI_COMM_SET_ERRHANDLER(MPI_COMM_SELF, MPI_ERRORS_RETURN,
     &                             IERR)
      CALL MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN,
     &                             IERR)
      CALL MPI_LOOKUP_NAME('weather of today', MPI_INFO_NULL, FOUND,
     &                     CODE)
      CALL MPI_ERROR_CLASS(CODE, CLASS, IERR)
      IF (CLASS .NE. MPI_ERR_NAME) STOP 2
      IF (ME .EQ. 0) CALL MPI_CLOSE_PORT(PORT, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      END
