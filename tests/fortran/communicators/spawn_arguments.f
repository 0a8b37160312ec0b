! ranks: 1
! Arguments of a spawned program lose blanks at both ends, and the first blank one ends the list.
      PROGRAM SPARGS
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER IERR, PARENT, INTER, N, K, LENGTH, CODE(1), FAULTS
      CHARACTER*300 ME
      CHARACTER*12 ARGS(7), WANT(5), GOT
      DATA ARGS /'a', 'b=c', ' d  e', '  -pf', '0', ' ', 'never'/
      DATA WANT /'a', 'b=c', 'd  e', '-pf', '0'/
      FAULTS = 0
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_GET_PARENT(PARENT, IERR)
      IF (PARENT .EQ. MPI_COMM_NULL) THEN
         CALL GET_COMMAND_ARGUMENT(0, ME)
         CALL MPI_COMM_SPAWN('  '//ME, ARGS, 1, MPI_INFO_NULL, 0,
     &                       MPI_COMM_SELF, INTER, CODE, IERR)
         CALL MPI_RECV(FAULTS, 1, MPI_INTEGER, 0, 1, INTER,
     &                 MPI_STATUS_IGNORE, IERR)
         IF (FAULTS .NE. 0) STOP 1
      ELSE
         INTER = PARENT
         N = COMMAND_ARGUMENT_COUNT()
         IF (N .NE. 5) FAULTS = 100 + N
         DO 10 K = 1, MIN(N, 5)
            CALL GET_COMMAND_ARGUMENT(K, GOT, LENGTH)
            IF (GOT .NE. WANT(K)) FAULTS = K
            IF (LENGTH .NE. LEN_TRIM(WANT(K))) FAULTS = 10 + K
   10    CONTINUE
         CALL MPI_SEND(FAULTS, 1, MPI_INTEGER, 0, 1, INTER, IERR)
      END IF
      CALL MPI_COMM_DISCONNECT(INTER, IERR)
      CALL MPI_FINALIZE(IERR)
      IF (PARENT .EQ. MPI_COMM_NULL) PRINT '(A)', 'ok'
      END
