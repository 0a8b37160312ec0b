! ranks: 1 2
! Datatypes and operations as arguments, a BLOCK DATA, an alternate return and computed GO TO.
      BLOCK DATA
      INTEGER TABLE(4)
      COMMON /TAB/ TABLE
      DATA TABLE /4, 3, 2, 1/
      END

      SUBROUTINE COMBIN(A, B, N, TYPE, OP, *)
      INCLUDE 'mpif.h'
      INTEGER N, TYPE, OP, IERR
      INTEGER A(N), B(N)
      CALL MPI_ALLREDUCE(A, B, N, TYPE, OP, MPI_COMM_WORLD, IERR)
      IF (IERR .NE. MPI_SUCCESS) RETURN 1
      END

      PROGRAM PASSED
      IMPLICIT NONE
      INCLUDE 'mpif.h'
      INTEGER TABLE(4), B(4), IERR, ME, NP, K
      COMMON /TAB/ TABLE
      CALL MPI_INIT(IERR)
      CALL MPI_COMM_RANK(MPI_COMM_WORLD, ME, IERR)
      CALL MPI_COMM_SIZE(MPI_COMM_WORLD, NP, IERR)
      DO 40 K = 1, 2
      GO TO (10, 20), K
   10 CALL COMBIN(TABLE, B, 4, MPI_INTEGER, MPI_SUM, *90)
      IF (B(1) .NE. 4*NP .OR. B(4) .NE. NP) STOP 1
      GO TO 40
   20 CALL COMBIN(TABLE, B, 4, MPI_INTEGER, MPI_PROD, *90)
      IF (B(2) .NE. 3**NP) STOP 2
   40 CONTINUE
C     An error comes back by the alternate return.
      CALL MPI_COMM_SET_ERRHANDLER(MPI_COMM_WORLD, MPI_ERRORS_RETURN,
     &                             IERR)
      CALL COMBIN(TABLE, B, 4, MPI_INTEGER, MPI_OP_NULL, *50)
      STOP 3
   50 CALL MPI_FINALIZE(IERR)
      IF (ME .EQ. 0) PRINT '(A)', 'ok'
      STOP
   90 STOP 4
      END
